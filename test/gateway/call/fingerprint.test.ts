import t from 'tap'
import type { Selectors } from '../../../src/contracts/catalog.ts'
import { fingerprintOf, slotIdOf } from '../../../src/gateway/call/context/idempotency.ts'
import { options as optionsOf } from '../../support/call.ts'
import { principal } from '../../support/catalog.ts'

const DIGEST = 'ab'.repeat(32)
const NONE: Selectors = { purpose: null, responseProfile: null }

t.test('every option, selector and the audio change the fingerprint', async (t) => {
  const plain = fingerprintOf('transcription', optionsOf(), NONE, DIGEST)
  t.match(plain, /^[0-9a-f]{64}$/)
  const changed = Object.entries({
    language: 'en',
    prompt: 'a talk',
    response_format: 'text',
    diarization: true,
    speaker_count_hint: 2,
    timestamps: 'word',
    keyterms: ['lark'],
    smart_formatting: true,
    detect_language: true,
    profanity_filter: true,
    multichannel: true,
    redaction: ['pii'],
    seed: 1,
  }).map(([name, value]) => {
    return fingerprintOf('transcription', optionsOf({ [name]: value }), NONE, DIGEST)
  })
  const labelled: Selectors = { ...NONE, purpose: { label: 'calls', source: 'body' } }
  const others = [
    fingerprintOf('translation', optionsOf(), NONE, DIGEST),
    fingerprintOf('transcription', optionsOf(), labelled, DIGEST),
    fingerprintOf('transcription', optionsOf(), { ...NONE, responseProfile: 'fast' }, DIGEST),
    fingerprintOf('transcription', optionsOf(), NONE, 'cd'.repeat(32)),
    fingerprintOf('transcription', optionsOf(), NONE, DIGEST, 'openai'),
  ]
  const all = [plain, ...changed, ...others]
  t.equal(new Set(all).size, all.length)
})

t.test('what means the same has the same fingerprint', async (t) => {
  const options = optionsOf({ keyterms: ['b', 'a'], redaction: ['phi', 'pii'], language: 'en' })
  const reversed = Object.fromEntries(Object.entries(options).reverse()) as typeof options
  const sorted = { ...reversed, keyterms: ['a', 'b'], redaction: ['pii', 'phi'] as const }
  const inBody: Selectors = { ...NONE, purpose: { label: 'calls', source: 'body' } }
  const inHeader: Selectors = { ...NONE, purpose: { label: 'calls', source: 'header' } }
  t.equal(
    fingerprintOf('transcription', options, inBody, DIGEST),
    fingerprintOf('transcription', sorted, inHeader, DIGEST),
  )
})

t.test('a slot belongs to one app, one operation and one key', async (t) => {
  const web = principal({ app: { id: 'web' } })
  const ids = [
    slotIdOf(web, 'transcription', 'k'),
    slotIdOf(web, 'translation', 'k'),
    slotIdOf(web, 'transcription', 'K'),
    slotIdOf(principal({ app: { id: 'we' } }), 'transcription', 'bk'),
  ]
  t.equal(new Set(ids).size, ids.length)
  t.equal(slotIdOf(principal({ app: { id: 'web' } }), 'transcription', 'k'), ids[0])
})
