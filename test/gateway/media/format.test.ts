import t from 'tap'
import { formByMagic, id3v2Bytes, taggedForm } from '../../../src/gateway/media/format.ts'
import { fixture, formatOf, VERDICTS } from './fixtures.ts'

const isUnknown = (bytes: Uint8Array): boolean => formByMagic(bytes) === null

t.test('every fixture is what its bytes say, by the first 4 KiB as by all', async (t) => {
  for (const name of Object.keys(VERDICTS)) {
    const bytes = fixture(name)
    if (formatOf(name) === 'none') {
      t.ok(isUnknown(bytes), name)
      continue
    }
    t.equal(formByMagic(bytes), formatOf(name), name)
    t.equal(formByMagic(bytes.subarray(0, 4096)), formatOf(name), `${name}, head only`)
  }
})

t.test('what is no audio is of no format', async (t) => {
  const cases: Record<string, Buffer | string> = {
    nothing: '',
    'one byte': 'R',
    text: 'a transcription of nothing at all, several words long',
    html: '<!doctype html><html><body>404</body></html>',
    pdf: '%PDF-1.7\n%\xe2\xe3\xcf\xd3',
    zip: 'PK\x03\x04\x14\0\0\0\x08\0',
    png: '\x89PNG\r\n\x1a\n\0\0\0\rIHDR',
    'RIFF that is no wave': 'RIFF\x24\0\0\0WEBPVP8 ',
    'cut RIFF': 'RIFF\x24\0\0\0WA',
    'EBML of another type': '\x1a\x45\xdf\xa3\x8b\x42\x82\x88whatever',
    'EBML without a type': '\x1a\x45\xdf\xa3\x80',
    'a type that only begins so': '\x1a\x45\xdf\xa3\x88\x42\x82\x85webmx',
    'all bits set': Buffer.alloc(8192, 0xff),
    'sync that nothing follows': Buffer.concat([
      Buffer.from('\xff\xfb\x90\x00', 'latin1'),
      Buffer.alloc(5000),
    ]),
    'free format': Buffer.alloc(5000, '\xff\xfb\x00\x00', 'latin1'),
    'a packet without its pack': Buffer.concat([
      Buffer.from('000001c0080080000000', 'hex'),
      fixture('mp3-cbr-bare.mp3').subarray(0, 4_096),
    ]),
    'a transport stream': Buffer.concat(
      Array.from({ length: 40 }, (_, index) => {
        const payload = fixture('mp3-cbr-bare.mp3').subarray(index * 184, (index + 1) * 184)
        return Buffer.concat([Buffer.from([0x47, 0x40, 0x11, 0x10]), payload])
      }),
    ),
    'a tag in front of text': Buffer.concat([
      Buffer.from('ID3\x04\0\0\0\0\0\x05', 'latin1'),
      Buffer.alloc(100, 'a'),
    ]),
    'a tag in front of a wave': Buffer.concat([
      Buffer.from('ID3\x04\0\0\0\0\0\0', 'latin1'),
      fixture('wav-mulaw.wav'),
    ]),
  }
  for (const [name, bytes] of Object.entries(cases)) {
    t.ok(isUnknown(Buffer.from(bytes as string, 'latin1')), name)
  }
})

t.test('Matroska is taken for webm, with a padded type too', async (t) => {
  t.equal(formByMagic(Buffer.from('\x1a\x45\xdf\xa3\x8b\x42\x82\x88matroska', 'latin1')), 'webm')
  t.equal(formByMagic(Buffer.from('\x1a\x45\xdf\xa3\x89\x42\x82\x86webm\0\0', 'latin1')), 'webm')
})

t.test('a frame after part of another, but not after more than one frame of anything', async (t) => {
  const frames = fixture('mp3-cbr-bare.mp3')
  t.equal(formByMagic(Buffer.concat([Buffer.alloc(1729, 'x'), frames])), 'mp3')
  t.ok(isUnknown(Buffer.concat([Buffer.alloc(1731, 'x'), frames])))
})

t.test('tags: their length, several of them, one that is longer than the head', async (t) => {
  const tag = (size: readonly number[], flags = 0) =>
    Buffer.concat([Buffer.from('ID3\x04\0', 'latin1'), Buffer.of(flags, ...size)])
  t.equal(id3v2Bytes(tag([0, 0, 2, 1]), 0), 10 + 257)
  t.equal(id3v2Bytes(tag([0, 0, 0, 0], 0x10), 0), 20, 'with a footer')
  t.equal(id3v2Bytes(tag([0, 0, 0x80, 0]), 0), 0, 'eight bits are no length')
  t.equal(id3v2Bytes(Buffer.from('ID3\x04\0\0\0\0', 'latin1'), 0), 0, 'cut')
  t.equal(id3v2Bytes(Buffer.from('xx'), 0), 0)

  const empty = tag([0, 0, 0, 0])
  t.equal(formByMagic(Buffer.concat([empty, empty, fixture('mp3-cbr-bare.mp3')])), 'mp3')
  t.equal(
    formByMagic(Buffer.concat([empty, Buffer.alloc(2048), fixture('mp3-cbr-bare.mp3')])),
    'mp3',
    'padding',
  )
  t.equal(formByMagic(tag([1, 0, 0, 0])), 'mp3', 'the tag alone')
  t.equal(taggedForm(fixture('flac-mono.flac')), 'flac')
  t.equal(taggedForm(fixture('none-adts.aac')), null)
})
