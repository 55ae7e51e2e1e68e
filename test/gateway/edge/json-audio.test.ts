import assert from 'node:assert/strict'
import t from 'tap'
import type { GatewayError } from '../../../src/contracts/errors.ts'
import { DEFAULT_LIMITS } from '../../../src/contracts/limits.ts'
import { JsonAudioScanner } from '../../../src/gateway/edge/json-audio.ts'
import type { ScannedBody } from '../../../src/gateway/edge/scanner.ts'
import { cutsOf, noise, readAudio, slices } from '../../support/bodies.ts'
import { refusalOf } from '../../support/refusal.ts'

const AUDIO = noise(1000)
const BASE64 = AUDIO.toString('base64')

function scan(pieces: readonly Buffer[], maxAudioBytes = 26_214_400): ScannedBody {
  const scanner = new JsonAudioScanner({ ...DEFAULT_LIMITS, max_audio_bytes: maxAudioBytes })
  for (const piece of pieces) scanner.scan(piece)
  return scanner.finish()
}

function scanAll(body: string | Buffer): ScannedBody {
  const [whole, ...others] = cutsOf(Buffer.from(body as string)).map((pieces) => scan(pieces))
  for (const other of others) assert.deepEqual(other, whole, 'the cuts matter')
  return whole!
}

/** The audio of a body: what was found, and the bytes that a reader gets out of that range. */
function audioOf(body: string | Buffer) {
  const { fields, source } = scanAll(body)
  if (fields.kind !== 'json' || source.kind !== 'audio') throw new Error('no audio in JSON')
  return {
    value: fields.value,
    audio: source.audio,
    decoded: readAudio(Buffer.from(body as string), source.audio),
  }
}

function refusal(body: string | Buffer): GatewayError {
  const [whole, ...others] = cutsOf(Buffer.from(body as string)).map((pieces) =>
    refusalOf(() => scan(pieces)),
  )
  for (const other of others) assert.deepEqual([other.code, other.extra], [whole!.code, whole!.extra])
  return whole!
}

t.test('a URL where base64 belongs is told where it belongs', async (t) => {
  const url = 'https://example.com/a.wav'
  const rows: [string, string][] = [
    [`{"audio":"${url}"}`, 'audio'],
    [`{"audio":"HTTP://example.com/a.wav"}`, 'audio'],
    [`{"audio_base64":"${url}"}`, 'audio_base64'],
    [`{"audio":{"base64":"${url}"}}`, 'audio.base64'],
    [`{"audio":{"data":"https:\\/\\/example.com"}}`, 'audio.data'],
  ]
  for (const [body, name] of rows) {
    const error = refusal(body)
    t.equal(error.message, `\`${name}\` must be base64; send a URL as \`audio.url\``, body)
    t.match(error, { code: 'INVALID_REQUEST', extra: { param: 'audio' } })
  }
  t.match(refusal('{"audio":"httpx:"}').message, /not valid base64/)
})

t.test('finds the audio in every form', async (t) => {
  const forms: [string, string, Record<string, unknown>][] = [
    ['audio.base64', `{"audio":{"base64":"${BASE64}"}}`, {}],
    ['audio.data', `{"audio":{"data":"${BASE64}"}}`, {}],
    ['audio', `{"audio":"${BASE64}"}`, {}],
    ['audio_base64', `{"audio_base64":"${BASE64}"}`, {}],
    ['a data URL', `{"audio":{"data":"data:audio/wav;base64,${BASE64}"}}`, {}],
    ['a data URL in base64', `{"audio":{"base64":"DATA:audio/wav;Base64,${BASE64}"}}`, {}],
    [
      'fields around it',
      `{"language":"de","audio":{"base64":"${BASE64}"},"seed":7}`,
      { language: 'de', seed: 7 },
    ],
    ['white space', ` \r\n{ "audio"\t: { "base64" : "${BASE64}" } , "seed" : 7 } \n`, { seed: 7 }],
    ['a byte order mark', `\ufeff{"audio":"${BASE64}"}`, {}],
    ['empty members', `{"audio":{"base64":"${BASE64}","url":null,"filename":null},"audio_base64":null}`, {}],
    ['escapes in its key', `{"\\u0061udio":{"b\\u0061se64":"${BASE64}"}}`, {}],
    [
      'look-alikes before it',
      `{"a":{"audio":"x","base64":"y"},"b":["audio","base64"],"audio":"${BASE64}"}`,
      { a: { audio: 'x', base64: 'y' }, b: ['audio', 'base64'] },
    ],
    [
      'look-alikes in strings',
      `{"prompt":"\\"audio\\":{\\"base64\\":\\"\\\\","audio":{"base64":"${BASE64}"}}`,
      { prompt: '"audio":{"base64":"\\' },
    ],
    [
      'objects within audio',
      `{"audio":{"x":{"base64":"QQ=="},"y":["data"],"base64":"${BASE64}"}}`,
      { audio: { x: { base64: 'QQ==' }, y: ['data'] } },
    ],
    [
      'other members of audio',
      `{"audio":{"provider":"p","base64":"${BASE64}","model":null}}`,
      { audio: { provider: 'p', model: null } },
    ],
    ['text beyond ASCII', `{"prompt":"Föhn 🐦","audio":"${BASE64}"}`, { prompt: 'Föhn 🐦' }],
    [
      'an own __proto__',
      `{"__proto__":{"audio":1},"audio":"${BASE64}"}`,
      JSON.parse('{"__proto__":{"audio":1}}'),
    ],
    [
      '64 levels',
      `{"a":${'['.repeat(63)}${']'.repeat(63)},"audio":"${BASE64}"}`,
      { a: JSON.parse('['.repeat(63) + ']'.repeat(63)) },
    ],
  ]
  for (const [name, body, fields] of forms) {
    const { value, audio, decoded } = audioOf(body)
    t.strictSame(value, fields, name)
    t.match(audio, { encoding: 'base64', decodedBytes: 1000, canonical: true, length: BASE64.length }, name)
    t.ok(decoded.equals(AUDIO), name)
  }
})

t.test('tells what the caller says about the audio', async (t) => {
  const declared = (members: string) => audioOf(`{"audio":{"base64":"QUJD"${members}}}`).audio
  t.match(declared(''), { mediaType: null, filename: null })
  t.match(declared(',"media_type":"audio/mpeg","filename":"Grüße.mp3"'), {
    mediaType: 'audio/mpeg',
    filename: 'Grüße.mp3',
  })
  t.match(declared(',"filename":"a\\r\\nb"'), { filename: 'ab' }, 'no line breaks')
  t.match(declared(',"filename":""'), { filename: null })
  t.match(
    audioOf('{"audio":"data:audio/webm;codecs=opus;base64,QUJD"}').audio.mediaType,
    'audio/webm;codecs=opus',
  )
  t.match(
    audioOf('{"audio":"data:audio\\/wav;base64,QUJD"}').audio.mediaType,
    'audio/wav',
    'escaped as PHP does',
  )
  t.equal(audioOf('{"audio":"data:;base64,QUJD"}').audio.mediaType, null)
  t.match(
    audioOf('{"audio":{"data":"data:audio/wav;base64,QUJD","media_type":"audio/mpeg"}}').audio.mediaType,
    'audio/mpeg',
    'the member wins',
  )
  t.match(
    audioOf('{"audio":{"media_type":"audio/mpeg"},"audio_base64":"QUJD"}').audio.mediaType,
    'audio/mpeg',
  )
})

t.test('returns a URL as it is', async (t) => {
  t.same(scanAll('{"audio":{"url":"https://a.example/b?c=\\u0026","provider":"x"},"seed":1}'), {
    fields: { kind: 'json', value: { audio: { provider: 'x' }, seed: 1 } },
    source: { kind: 'url', url: 'https://a.example/b?c=&' },
  })
})

t.test('decodes to what Buffer decodes, and says what can be read from the middle', async (t) => {
  const texts: [string, string, boolean][] = [
    ['one byte', 'QQ==', true],
    ['two bytes', 'QUI=', true],
    ['no padding', 'QUI', false],
    ['no padding, one byte', 'QQ', false],
    ['the alphabet for URLs', '-_-_', false],
    ['both alphabets', '+/-_', false],
    ['the prefix of a data URL', 'data', true],
    ['slashes as PHP escapes them', 'a\\/b\\/', false],
    ['plus and equals as .NET and Gson do', '\\u002BQ\\u003d\\u003D', false],
    ['escaped line ends', 'QUJD\\r\\nQUJD\\n', false],
    ['raw line ends', 'QUJD\r\nQUJD\n\tQQ = = ', false],
    ['blanks in front', ' QUJD', false],
    ['nonzero bits after the last byte', 'QR==', true],
  ]
  for (const [name, text, canonical] of texts) {
    for (const [kind, long] of Object.entries({ short: text, long: `${'QUJD'.repeat(20_000)}${text}` })) {
      const { audio, decoded } = audioOf(`{"audio":"${long}","seed":1}`)
      t.match(
        audio,
        { decodedBytes: decoded.length, canonical, offset: 10, length: long.length },
        `${name}, ${kind}`,
      )
      t.ok(decoded.length > 0)
    }
  }
})

t.test('refuses what is no base64, wherever it stands', async (t) => {
  const texts = [
    ...['Q', 'QUJDR', 'QQ=', 'QUI==', 'QUJD=', 'QUJD====', 'QQ==QQ==', '=', '====', 'QU\\"JD', 'QU\\\\JD'],
    'QU\\bJD',
  ]
  texts.push(
    ...['QU\\u0041\\u00', 'QU\\u00e4', 'QU\\u005cnJD', 'QU\\u0022', 'QU\\x41', 'Ä', 'QU\x00D', 'QU\x7fD'],
    ...['QU.D', 'QU\\'],
  )
  for (const text of texts) {
    for (const long of [text, `${'QUJD'.repeat(20_000)}${text}`]) {
      const error = refusal(Buffer.from(`{"audio":{"base64":"${long}"}}`))
      t.equal(error.code, 'INVALID_REQUEST', JSON.stringify(text))
    }
  }
  const text = Buffer.from(`{"audio":"${'QUJD'.repeat(50_000)}"}`)
  for (const at of [10, 11, 65_545, 65_546, 70_001, 131_082, 200_000, 200_009]) {
    const broken = Buffer.from(text)
    broken[at] = 0x2e
    t.match(refusal(broken).extra, { param: 'audio' }, `at ${at}`)
  }
})

t.test('a body without a source is for its reader to judge', async (t) => {
  for (const body of ['{}', '{"audio":{}}', '{"audio":null}', '{"task":"speech","input":"hi"}'])
    t.same(scanAll(body).source, { kind: 'none' }, body)
})

t.test('refuses, naming the field where there is one', async (t) => {
  const cases: [string, string | Buffer, string | undefined][] = [
    ['empty audio', '{"audio":""}', 'audio'],
    ['an empty data URL', '{"audio":"data:audio/wav;base64,"}', 'audio'],
    ['blank audio', '{"audio":" \\n "}', 'audio'],
    ['base64 and data', '{"audio":{"base64":"QUJD","data":"QUJD"}}', 'audio'],
    ['base64 and url', '{"audio":{"base64":"QUJD","url":"https://x"}}', 'audio'],
    ['url and base64', '{"audio":{"url":"https://x","base64":"QUJD"}}', 'audio'],
    ['audio and audio_base64', '{"audio":"QUJD","audio_base64":"QUJD"}', 'audio'],
    ['url and audio_base64', '{"audio":{"url":"https://x"},"audio_base64":"QUJD"}', 'audio'],
    ['the same key twice', '{"audio":"QUJD","audio":"QUJD"}', 'audio'],
    ['a source hidden by a later key', '{"audio":{"url":"https://x"},"audio":{"base64":"QUJD"}}', 'audio'],
    ['a source hidden by null', '{"audio":{"base64":"QUJD","base64":null}}', 'audio'],
    ['a source hidden by an escaped key', '{"audio":"QUJD","\\u0061udio":null}', 'audio'],
    ['two URLs', '{"audio":{"url":"https://x","url":"https://y"}}', 'audio'],
    ['a number', '{"audio":5}', 'audio'],
    ['a list', '{"audio":["QUJD"]}', 'audio'],
    ['base64 as a number', '{"audio":{"base64":5}}', 'audio'],
    ['audio_base64 as an object', '{"audio_base64":{}}', 'audio'],
    ['a URL that is none', '{"audio":{"url":5}}', 'audio.url'],
    ['an empty URL', '{"audio":{"url":""}}', 'audio.url'],
    ['a media type as a number', '{"audio":{"base64":"QUJD","media_type":5}}', 'audio.media_type'],
    [
      'a media type with a line break',
      '{"audio":{"base64":"QUJD","media_type":"audio/wav\\r\\nx: y"}}',
      'audio.media_type',
    ],
    ['a file name as a list', '{"audio":{"base64":"QUJD","filename":["a"]}}', 'audio.filename'],
    ['a data URL without base64', '{"audio":"data:audio/wav,QUJD"}', 'audio'],
    ['a data URL without comma', '{"audio":"data:audio/wav;base64"}', 'audio'],
    ['an endless data URL', `{"audio":"data:${'a'.repeat(2000)};base64,QUJD"}`, 'audio'],
    ['nothing', '', undefined],
    ['blanks', '   ', undefined],
    ['no JSON', 'hello', undefined],
    ['a list around it', '[{"audio":"QUJD"}]', undefined],
    ['a string', '"QUJD"', undefined],
    ['two bodies', '{"audio":"QUJD"}{}', undefined],
    ['an open object', '{"audio":"QUJD"', undefined],
    ['an open string', '{"audio":"QUJD', undefined],
    ['an open key', '{"audio":"QUJD","b', undefined],
    ['a missing colon', '{"audio" "QUJD"}', undefined],
    ['a missing comma', '{"a":1 "audio":"QUJD"}', undefined],
    ['a comma too many', '{"audio":"QUJD",}', undefined],
    ['the wrong bracket', '{"audio":"QUJD"]', undefined],
    ['single quotes', "{'audio':'QUJD'}", undefined],
    ['invalid UTF-8', Buffer.from('{"prompt":"\xff","audio":"QUJD"}', 'latin1'), undefined],
    ['65 levels', `{"a":${'['.repeat(64)}${']'.repeat(64)},"audio":"QUJD"}`, undefined],
    ['fields over 256 KiB', `{"audio":"QUJD","prompt":"${'x'.repeat(262_144)}"}`, undefined],
    ['white space over 256 KiB', `{"audio":"QUJD"${' '.repeat(262_144)}}`, undefined],
  ]
  for (const [name, body, param] of cases) {
    const { code, extra } = refusal(body)
    t.strictSame({ code, param: extra.param }, { code: 'INVALID_REQUEST', param }, name)
  }
})

t.test('counts the decoded audio, to the byte', async (t) => {
  const wrapped = BASE64.replace(/.{76}/g, '$&\\n')
  const forms = [
    BASE64,
    BASE64.replace(/\//g, '\\/'),
    BASE64.replace(/=/g, ''),
    wrapped,
    AUDIO.toString('base64url'),
  ]
  const bodies = forms.flatMap((text) => [
    `{"audio":{"data":"data:audio/wav;base64,${text}"}}`,
    `{"audio_base64":"${text}"}`,
  ])
  for (const body of bodies) {
    for (const size of [1, 13, 997, 10_000]) {
      const pieces = slices(Buffer.from(body), size)
      t.match(scan(pieces, 1000).source, { audio: { decodedBytes: 1000 } })
      t.throws(() => scan(pieces, 999), {
        code: 'AUDIO_TOO_LARGE',
        extra: { details: { limit: 'max_audio_bytes', limit_bytes: 999, received_bytes: 1000 } },
      })
    }
  }
})

t.test('stops at the chunk that crosses a limit', async (t) => {
  const endless = { audio: '{"audio":"', skeleton: '{"prompt":"', prefix: '{"audio":"data:', list: '{"a":[' }
  for (const [name, begin] of Object.entries(endless)) {
    const scanner = new JsonAudioScanner({ ...DEFAULT_LIMITS, max_audio_bytes: 300_000 })
    let scanned = 0
    scanner.scan(Buffer.from(begin))
    t.throws(() => {
      for (; scanned < 1_000_000; scanned += 1000)
        scanner.scan(Buffer.alloc(1000, name === 'list' ? '1,' : 'QUJD'))
    }, name)
    t.ok(scanned <= 400_000, `${name}: ${scanned} bytes before the refusal`)
  }
})
