import t from 'tap'
import type { Audio } from '../../../src/contracts/audio.ts'
import type { Piece } from '../../../src/contracts/upstream.ts'
import { encodeForm, type FormField, safeFilename } from '../../../src/gateway/providers/form.ts'
import { audio } from '../../support/call.ts'

/** What goes over the wire, with `bytes` in the place of the audio. */
function wire(body: readonly Piece[], bytes: Uint8Array): Buffer {
  return Buffer.concat(body.map((piece) => (piece instanceof Uint8Array ? piece : bytes)))
}

/** The form as a parser that shares nothing with ours reads it. */
async function parse(fields: readonly FormField[], overrides: Partial<Audio>, bytes: Uint8Array) {
  const form = encodeForm('http://provider/v1', fields, { name: 'file', audio: audio(overrides) })
  const headers = { 'content-type': form.contentType }
  return new Response(Uint8Array.from(wire(form.body, bytes)), { headers }).formData()
}

const HOSTILE = [
  ...['plain', '', 'line\r\nline\nline\rend', '"quoted" \\ back'],
  ...['--larkway\r\ncontent-disposition: form-data; name="model"\r\n\r\nother', 'naïve 日本語 🎙️'],
  ...['\u0000\u0007', '\r\n\r\n'],
]

t.test('hostile values and names come out as they went in', async (t) => {
  const bytes = Buffer.from('RIFF\r\n--larkway-\r\n\r\n--\u0000')
  const fields: FormField[] = [
    ['model', 'whisper-1'],
    ...HOSTILE.map((value): FormField => ['prompt', value]),
  ]
  for (const filename of [...HOSTILE, null, '../../etc/passwd', 'a"; name="model.wav', 'x.wav\r\nevil: 1']) {
    const form = await parse(fields, { filename, format: 'wav' }, bytes)
    t.same(
      [...form.keys()],
      [...fields.map(([name]) => name), 'file'],
      `file name ${JSON.stringify(filename)}`,
    )
    t.equal(form.get('model'), 'whisper-1')
    t.same(form.getAll('prompt'), HOSTILE)
    const file = form.get('file') as File
    t.same(Buffer.from(await file.arrayBuffer()), bytes)
    t.equal(file.type, 'audio/wav')
    t.match(file.name, /^[^/\\\r\n\0]+\.wav$/)
  }
})

t.test('quotes of a file name arrive', async (t) => {
  for (const filename of ['the "final" take; 100%.wav', '".wav', 'a"; name="model.wav']) {
    const form = await parse([['model', 'm']], { filename, format: 'wav' }, Buffer.from('RIFF'))
    t.same([...form.keys()], ['model', 'file'])
    t.equal((form.get('file') as File).name, filename)
  }
})

t.test('the audio stays a piece, so that each attempt reads it again', async (t) => {
  const of = audio()
  const { body } = encodeForm('http://provider', [['model', 'm']], { name: 'file', audio: of })
  t.equal(body.length, 3)
  t.same(body[1], { audio: of, as: 'bytes' })
})

t.test('a boundary is stable, hard to foretell, and legal', async (t) => {
  const boundary = (scope: string, fields: FormField[], overrides: Partial<Audio> = {}) =>
    encodeForm(scope, fields, { name: 'file', audio: audio(overrides) }).contentType
  const one = boundary('http://a', [['prompt', 'x']])
  t.match(one, /^multipart\/form-data; boundary=larkway-[0-9a-f]{32}$/)
  t.equal(boundary('http://a', [['prompt', 'x']]), one, 'the same form twice is the same bytes')
  t.not(
    boundary('http://b', [['prompt', 'x']]),
    one,
    'one provider learns nothing of the boundaries of another',
  )
  t.not(boundary('http://a', [['prompt', 'y']]), one)
  t.not(boundary('http://a', [['prompt', 'x']], { decodedBytes: 5 }), one)
})

t.test('file names are kept when sane, and their extensions fit', async (t) => {
  const rows: [string | null, Audio['format'], string][] = [
    [null, 'wav', 'audio.wav'],
    ['', 'mp3', 'audio.mp3'],
    ['talk.wav', 'wav', 'talk.wav'],
    ['TALK.WAV', 'wav', 'TALK.wav'],
    ['talk.m4a', 'mp4', 'talk.m4a'],
    ['talk.mpga', 'mp3', 'talk.mpga'],
    ['talk.mp3', 'wav', 'talk.wav'],
    ['talk.opus', 'ogg', 'talk.ogg'],
    ['talk', 'flac', 'talk.flac'],
    ['a.b.c', 'webm', 'a.b.webm'],
    ['C:\\music\\talk.wav', 'wav', 'talk.wav'],
    ['/etc/passwd', 'wav', 'passwd.wav'],
    ['../../..', 'wav', 'audio.wav'],
    ['...hidden.wav', 'wav', 'hidden.wav'],
    ['.wav', 'wav', 'audio.wav'],
    ['a"b\r\nc\u202e.wav', 'wav', 'a%22bc.wav'],
    ['100%; "live".wav', 'wav', '100%; %22live%22.wav'],
    ['bad\ud800half.wav', 'wav', 'badhalf.wav'],
    ['日本語 録音.wav', 'wav', '日本語 録音.wav'],
  ]
  for (const [given, format, expected] of rows)
    t.equal(safeFilename(given, format), expected, JSON.stringify(given))
  const long = safeFilename(`${'🎙'.repeat(400)}.wav`, 'wav')
  t.ok(long.length <= 104 && long.isWellFormed(), 'long names are cut, not inside a character')
})
