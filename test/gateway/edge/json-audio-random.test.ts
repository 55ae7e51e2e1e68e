import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { DEFAULT_LIMITS } from '../../../src/contracts/limits.ts'
import { JsonAudioScanner } from '../../../src/gateway/edge/json-audio.ts'
import type { ScannedBody } from '../../../src/gateway/edge/scanner.ts'
import { fragment, readAudio } from '../../support/bodies.ts'

function scan(pieces: readonly Buffer[]): ScannedBody {
  const scanner = new JsonAudioScanner(DEFAULT_LIMITS)
  for (const piece of pieces) scanner.scan(piece)
  return scanner.finish()
}

const JSON_TEXT = fc.tuple(fc.json({ maxDepth: 3 }), fc.boolean()).map(([text, spaced]) => {
  return spaced ? JSON.stringify(JSON.parse(text), null, 1) : text
})

t.test('agrees with JSON.parse and Buffer on random bodies, however they are cut', async (t) => {
  const body = fc.record({
    before: fc.dictionary(
      fc.string().filter((key) => key !== 'audio' && key !== 'audio_base64'),
      JSON_TEXT,
      { maxKeys: 4 },
    ),
    after: fc.dictionary(
      fc.string().map((key) => `z${key}`),
      JSON_TEXT,
      { maxKeys: 4 },
    ),
    form: fc.constantFrom('audio', 'audio_base64', 'audio.base64', 'audio.data'),
    bytes: fc.uint8Array({ minLength: 1, maxLength: 400 }),
    dress: fc.constantFrom('plain', 'url', 'bare', 'php', 'wrapped', 'data url'),
    cuts: fc.array(fc.nat(1500), { maxLength: 30 }),
  })
  const property = fc.property(body, ({ before, after, form, bytes, dress, cuts }) => {
    const audio = Buffer.from(bytes)
    const member = (entry: [string, string]) => `${JSON.stringify(entry[0])}:${entry[1]}`
    const text = dressed(audio, dress)
    const [outer, inner] = form.split('.')
    const source = inner === undefined ? `"${outer}":"${text}"` : `"${outer}": {"${inner}" :"${text}"}`
    const json = `{${[...Object.entries(before).map(member), source, ...Object.entries(after).map(member)].join(',')}}`
    const raw = Buffer.from(json)
    const { fields, source: found } = scan(fragment(raw, cuts))
    if (fields.kind !== 'json' || found.kind !== 'audio') throw new Error('no audio in JSON')

    const { offset, length, decodedBytes, canonical } = found.audio
    const range = raw.toString('latin1', offset, offset + length)
    assert.ok(readAudio(raw, found.audio).equals(audio))
    assert.equal(decodedBytes, audio.length)
    if (canonical) assert.equal(range, audio.toString('base64'))
    else assert.notEqual(range, audio.toString('base64'))
    const expected = JSON.parse(json)
    delete expected[outer!]
    assert.deepEqual(fields.value, expected)
  })
  t.doesNotThrow(() => fc.assert(property, { numRuns: 2000 }))
})

function dressed(audio: Buffer, dress: string): string {
  const text = audio.toString('base64')
  if (dress === 'url') return audio.toString('base64url')
  if (dress === 'bare') return text.replace(/=/g, '')
  if (dress === 'php') return text.replace(/\//g, '\\/')
  if (dress === 'wrapped') return text.replace(/.{60}/g, '$&\\r\\n')
  return dress === 'data url' ? `data:audio/ogg;base64,${text}` : text
}

t.test('never disagrees with Buffer about random text', async (t) => {
  const alphabet = fc.constantFrom(
    ...'AQz09+/-_= \n.',
    '\\n',
    '\\/',
    '\\u003d',
    '\\u0041',
    '\\u0020',
    'QUJDQUJDQUJD'.repeat(8),
  )
  let accepted = 0
  const property = fc.property(
    fc.array(alphabet, { maxLength: 30 }),
    fc.array(fc.nat(300)),
    (pieces, cuts) => {
      const text = pieces.join('')
      const raw = Buffer.from(`{"audio_base64":"${text}"}`)
      let found: ScannedBody
      try {
        found = scan(fragment(raw, cuts))
      } catch (error) {
        assert.ok(error instanceof GatewayError && error.code === 'INVALID_REQUEST')
        return
      }
      accepted += 1
      const meant: string = JSON.parse(`"${text.replace(/\n/g, ' ')}"`)
      assert.match(meant.replace(/\s/g, ''), /^[\w+/-]+={0,2}$/)
      assert.ok(found.source.kind === 'audio')
      const { decodedBytes, canonical } = found.source.audio
      assert.equal(decodedBytes, Buffer.from(meant, 'base64').length)
      assert.equal(canonical, text === meant && /^[A-Za-z0-9+/]+={0,2}$/.test(text) && text.length % 4 === 0)
    },
  )
  t.doesNotThrow(() => fc.assert(property, { numRuns: 5000 }))
  t.ok(accepted > 500, `${accepted} texts were base64`)
})
