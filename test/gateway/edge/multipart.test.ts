import assert from 'node:assert/strict'
import t from 'tap'
import type { GatewayError } from '../../../src/contracts/errors.ts'
import { DEFAULT_LIMITS } from '../../../src/contracts/limits.ts'
import { parseHeaderValue } from '../../../src/gateway/edge/header-value.ts'
import { MultipartScanner } from '../../../src/gateway/edge/multipart.ts'
import type { ScannedBody } from '../../../src/gateway/edge/scanner.ts'
import { cutsOf, type MultipartOptions, multipart, noise, type Part, slices } from '../../support/bodies.ts'
import { refusalOf } from '../../support/refusal.ts'

const FILE: Part = { name: 'file', filename: 'a.wav', type: 'audio/wav', body: 'RIFF\0\xff' }

function scan(contentType: string, pieces: readonly Buffer[], maxAudioBytes = 26_214_400): ScannedBody {
  const limits = { ...DEFAULT_LIMITS, max_audio_bytes: maxAudioBytes }
  const scanner = new MultipartScanner(parseHeaderValue(contentType)!, limits)
  for (const piece of pieces) scanner.scan(piece)
  return scanner.finish()
}

function scanAll(parts: readonly Part[], options: MultipartOptions = {}) {
  const { contentType, body, offsets } = multipart(parts, options)
  const [whole, ...others] = cutsOf(body).map((pieces) => scan(contentType, pieces))
  for (const other of others) assert.deepEqual(other, whole, 'the cuts matter')
  return { ...formOf(whole!), offsets }
}

function formOf({ fields, source }: ScannedBody) {
  if (fields.kind !== 'form' || source.kind !== 'audio') throw new Error('not a form with audio')
  return { values: fields.values, audio: source.audio }
}

function refusal(parts: readonly Part[], options: MultipartOptions = {}, contentType?: string): GatewayError {
  const built = multipart(parts, options)
  const pieces = cutsOf(built.body)
  const [whole, ...others] = pieces.map((cut) => refusalOf(() => scan(contentType ?? built.contentType, cut)))
  for (const other of others) assert.deepEqual([other.code, other.extra], [whole!.code, whole!.extra])
  return whole!
}

t.test('finds the audio and the fields, in any order', async (t) => {
  const { values, audio, offsets } = scanAll([
    { name: 'language', body: 'de' },
    FILE,
    { name: 'keyterms', body: 'Lerche' },
    { name: 'keyterms', body: 'Föhn' },
    { name: 'tags[]', body: 'a' },
    { name: 'prompt', body: '' },
  ])
  t.same(Object.fromEntries(values), {
    language: ['de'],
    keyterms: ['Lerche', 'Föhn'],
    'tags[]': ['a'],
    prompt: [''],
  })
  t.same(audio, {
    offset: offsets[1],
    length: Buffer.byteLength('RIFF\0\xff'),
    encoding: 'identity',
    decodedBytes: Buffer.byteLength('RIFF\0\xff'),
    canonical: true,
    mediaType: 'audio/wav',
    filename: 'a.wav',
  })
})

t.test('takes what RFC 2046 and clients in the wild write', async (t) => {
  const disposition = (parameters: string) => [`content-disposition:form-data;${parameters}`]
  const accepted: [
    string,
    Part,
    MultipartOptions,
    { filename?: string | null; mediaType?: string | null },
  ][] = [
    ['the name audio', { ...FILE, name: 'audio' }, {}, { filename: 'a.wav' }],
    ['no filename and no type', { name: 'file', body: 'x' }, {}, { filename: null, mediaType: null }],
    ['preamble', FILE, { preamble: 'This is a multi-part message\r\nin MIME format.' }, {}],
    ['epilogue', FILE, { epilogue: '\r\nwhatever\r\n------lark' }, {}],
    ['nothing after the end', FILE, { epilogue: '' }, {}],
    ['blanks after the boundary', FILE, { padding: ' \t ' }, {}],
    ['a boundary of 70 characters', FILE, { boundary: 'b'.repeat(70) }, {}],
    ['a boundary of one character', FILE, { boundary: 'x' }, {}],
    ['an odd boundary', FILE, { boundary: "a'()+_,-./:=? z" }, {}],
    ['a boundary of dashes', FILE, { boundary: '----' }, {}],
    ['a token as name', { headers: disposition(' name=file'), body: 'x' }, {}, { filename: null }],
    ['spaces', { headers: ['Content-Disposition:   form-data ; name = "file" ; '], body: 'x' }, {}, {}],
    [
      'escapes',
      { headers: disposition('name="file"; filename="a\\"b\\\\c.wav"'), body: 'x' },
      {},
      { filename: 'a"b\\c.wav' },
    ],
    [
      'backslashes of Windows',
      { headers: disposition('name="file"; filename="C:\\dir\\a.wav"'), body: 'x' },
      {},
      { filename: 'C:\\dir\\a.wav' },
    ],
    [
      'semicolons in quotes',
      { headers: disposition('name="file"; filename="a;b=c.wav"'), body: 'x' },
      {},
      { filename: 'a;b=c.wav' },
    ],
    [
      'UTF-8 names',
      { headers: disposition('name="file"; filename="Grüße.mp3"'), body: 'x' },
      {},
      { filename: 'Grüße.mp3' },
    ],
    [
      'filename*',
      {
        headers: disposition('name="file"; filename="x"; filename*=UTF-8\'\'Gr%C3%BC%C3%9Fe.mp3'),
        body: 'x',
      },
      {},
      { filename: 'Grüße.mp3' },
    ],
    [
      'filename* in Latin 1',
      { headers: disposition("name=file;filename*=iso-8859-1'de'Gr%FCn"), body: 'x' },
      {},
      { filename: 'Grün' },
    ],
    [
      'a broken filename*',
      { headers: disposition('name="file"; filename="x"; filename*=UTF-8\'\'%FF'), body: 'x' },
      {},
      { filename: 'x' },
    ],
    [
      'no line breaks by filename*',
      { headers: disposition("name=file;filename*=utf-8''a%0D%0Ab"), body: 'x' },
      {},
      { filename: 'ab' },
    ],
    ['folded headers', { headers: ['Content-Disposition: form-data;\r\n name="file"'], body: 'x' }, {}, {}],
    [
      'binary transfer',
      { headers: [...disposition('name=file'), 'Content-Transfer-Encoding: Binary'], body: 'x' },
      {},
      {},
    ],
    [
      'a type with parameters',
      { name: 'file', type: 'audio/webm;codecs=opus', body: 'x' },
      {},
      { mediaType: 'audio/webm;codecs=opus' },
    ],
    ['a type that is none', { name: 'file', type: 'wav', body: 'x' }, {}, { mediaType: null }],
    ['audio like an empty line', { name: 'file', body: '\r\n' }, {}, {}],
    ['audio like a delimiter to come', { name: 'file', body: '\r\n--' }, {}, {}],
    ['audio that ends in CR', { name: 'file', body: 'a\r' }, {}, {}],
    ['audio that begins with dashes', { name: 'file', body: '--x' }, {}, {}],
  ]
  for (const [name, part, options, expected] of accepted) {
    const { audio, values, offsets } = scanAll([{ name: 'a', body: 'b' }, part], options)
    t.match(audio, { offset: offsets[1], length: Buffer.from(part.body as string).length, ...expected }, name)
    t.same(Object.fromEntries(values), { a: ['b'] })
  }
})

t.test('takes lines that only begin like a delimiter for audio', async (t) => {
  const boundary = 'lark'
  const near = [
    '\r\n--lar',
    '\r\n--larkx',
    '\r\n--lark-',
    '\r\n--lark-x',
    '\r\n--lark--x',
    '\r\n--lark \rx',
    '\n--lark\r\n',
  ]
  near.push(
    '\r\n--lark\n',
    '\r\n--lark \t -',
    '\r--lark\r\n',
    '\r\r\n--lar\r',
    '\r\n-',
    '\r\n--lark\r',
    `\r\n--lark${' '.repeat(300)}`,
  )
  for (const text of near) {
    const body = `begin${text}middle${text}`
    const { audio, offsets } = scanAll(
      [
        { name: 'file', body },
        { name: 'a', body },
      ],
      { boundary },
    )
    t.match(audio, { offset: offsets[0], length: body.length }, JSON.stringify(text))
  }
})

t.test('reads fields in their charset', async (t) => {
  const latin: Part = {
    name: 'prompt',
    type: 'text/plain; charset=ISO-8859-1',
    body: Buffer.from([0x46, 0xf6]),
  }
  t.same(scanAll([FILE, latin]).values.get('prompt'), ['Fö'])
  t.same(refusal([FILE, { name: 'prompt', body: Buffer.from([0xff]) }]).extra.param, 'prompt')
  t.same(
    refusal([FILE, { name: 'prompt', type: 'text/plain; charset=klingon', body: 'x' }]).extra.param,
    'prompt',
  )
})

t.test('a form without a file is for its reader to judge', async (t) => {
  const { body, contentType } = multipart([{ name: 'task', body: 'speech' }])
  for (const cut of cutsOf(body)) t.same(scan(contentType, cut).source, { kind: 'none' })
})

t.test('refuses, naming the field where there is one', async (t) => {
  const cases: [string, Part[], MultipartOptions, string | undefined][] = [
    ['two files', [FILE, { ...FILE, name: 'audio' }], {}, 'audio'],
    ['an empty file', [{ ...FILE, body: '' }], {}, 'audio'],
    ['a file of another name', [FILE, { ...FILE, name: 'upload' }], {}, 'audio'],
    ['a second source', [FILE, { name: 'audio_base64', body: 'QUJD' }], {}, 'audio'],
    ['no closing boundary', [FILE], { closed: false }, undefined],
    [
      'a file in base64',
      [
        {
          headers: ['Content-Disposition: form-data; name=file', 'Content-Transfer-Encoding: base64'],
          body: 'QQ==',
        },
      ],
      {},
      'file',
    ],
    ['no name', [FILE, { headers: ['Content-Disposition: form-data'], body: '' }], {}, undefined],
    ['an empty name', [FILE, { name: '', body: '' }], {}, undefined],
    ['a long name', [FILE, { name: 'n'.repeat(129), body: '' }], {}, undefined],
    ['no disposition', [FILE, { headers: ['Content-Type: text/plain'], body: '' }], {}, undefined],
    ['no headers', [FILE, { headers: [], body: '' }], {}, undefined],
    [
      'an attachment',
      [{ headers: ['Content-Disposition: attachment; name=file'], body: 'x' }],
      {},
      undefined,
    ],
    [
      'a name given twice',
      [{ headers: ['Content-Disposition: form-data; name=file; name=audio'], body: 'x' }],
      {},
      undefined,
    ],
    [
      'an open quote',
      [{ headers: ['Content-Disposition: form-data; name="file'], body: 'x' }],
      {},
      undefined,
    ],
    [
      'a header given twice',
      [
        {
          headers: ['Content-Disposition: form-data; name=file', 'content-disposition: form-data; name=a'],
          body: 'x',
        },
      ],
      {},
      undefined,
    ],
    [
      'a header without colon',
      [{ headers: ['Content-Disposition: form-data; name=file', 'x'], body: 'x' }],
      {},
      undefined,
    ],
    [
      'a bare line feed',
      [{ headers: ['Content-Disposition: form-data; name=file\nx: y'], body: 'x' }],
      {},
      undefined,
    ],
    [
      'headers over 16 KiB',
      [{ headers: ['Content-Disposition: form-data; name=file', `x: ${'y'.repeat(16384)}`], body: 'x' }],
      {},
      undefined,
    ],
    ['65 parts', [FILE, ...Array.from({ length: 64 }, () => ({ name: 'a', body: 'b' }))], {}, undefined],
    ['a field over 64 KiB', [FILE, { name: 'prompt', body: 'x'.repeat(65537) }], {}, 'prompt'],
    [
      'fields over 256 KiB',
      [FILE, ...'abcde'.split('').map((name) => ({ name, body: 'x'.repeat(65000) }))],
      {},
      undefined,
    ],
  ]
  for (const [name, parts, options, param] of cases) {
    const { code, extra } = refusal(parts, options)
    t.strictSame({ code, param: extra.param }, { code: 'INVALID_REQUEST', param }, name)
  }
  for (const parameter of [
    '',
    '; boundary=',
    '; boundary=""',
    `; boundary=${'b'.repeat(71)}`,
    '; boundary="x "',
    '; boundary="a\tb"',
  ]) {
    t.equal(refusal([FILE], {}, `multipart/form-data${parameter}`).code, 'INVALID_REQUEST', parameter)
  }
})

t.test('takes what is exactly at a limit', async (t) => {
  const fields = Array.from({ length: 62 }, () => ({ name: 'a', body: 'b' }))
  t.equal(
    scanAll([FILE, { name: 'prompt', body: 'x'.repeat(65536) }, ...fields]).values.get('a')?.length,
    62,
    '64 parts',
  )
})

t.test('counts the audio, to the byte', async (t) => {
  const { contentType, body } = multipart([
    { name: 'a', body: 'x'.repeat(500) },
    { name: 'file', body: noise(1000) },
  ])
  for (const size of [1, 13, 997, 10_000]) {
    t.equal(formOf(scan(contentType, slices(body, size), 1000)).audio.length, 1000)
    const refused = refusalOf(() => scan(contentType, slices(body, size), 999))
    t.match(refused, {
      code: 'AUDIO_TOO_LARGE',
      extra: { details: { limit: 'max_audio_bytes', limit_bytes: 999 } },
    })
  }
})

t.test('stops at the chunk that crosses the limit', async (t) => {
  const { contentType, body } = multipart([{ name: 'file', body: noise(5000) }])
  const limits = { ...DEFAULT_LIMITS, max_audio_bytes: 1000 }
  const scanner = new MultipartScanner(parseHeaderValue(contentType)!, limits)
  let scanned = 0
  t.throws(() => {
    for (const piece of slices(body, 100)) {
      scanner.scan(piece)
      scanned += piece.length
    }
  })
  t.ok(scanned < 1300, `${scanned} bytes were scanned before the refusal`)
})

t.test('takes time linear in the body on hostile input', async (t) => {
  const boundary = 'a'.repeat(70)
  const times: Record<string, number> = {}
  const hostile = {
    plain: Buffer.alloc(8_000_000, 0x41),
    'the boundary without its front': Buffer.alloc(8_000_000, 'a'),
    'delimiters cut by one': Buffer.alloc(8_000_000, `\r\n--${'a'.repeat(69)}`),
    'delimiters that go on': Buffer.alloc(8_000_000, `\r\n--${boundary}b`),
    'carriage returns': Buffer.alloc(8_000_000, '\r'),
    'empty lines': Buffer.alloc(8_000_000, '\r\n--'),
  }
  for (const [name, body] of Object.entries(hostile)) {
    const built = multipart([{ name: 'file', body }], { boundary })
    const started = process.cpuUsage()
    const { audio } = formOf(scan(built.contentType, slices(built.body, 65_536)))
    times[name] = process.cpuUsage(started).user / 1000
    t.equal(audio.length, 8_000_000, `${name}: ${times[name]?.toFixed(1)} ms`)
    t.ok(times[name]! < 1500, `${name} is scanned in linear time`)
  }
})
