import t from 'tap'
import { meter, NOTHING_TOLD } from '../../src/gateway/meter.ts'
import { factsOf } from '../../src/providers/facts.ts'
import type { OperationName } from '../../src/schema/operations.ts'
import { speechCall, transcriptionCall } from '../support/call.ts'

// The prices that the interface names, through the real table of facts and the real meter.

const THOUSAND = speechCall({ input: 'a'.repeat(1000) }).payload
const HOUR = transcriptionCall({ audio: { durationSeconds: 3600 } }).payload

function costOf(model: string, operation: Extract<OperationName, 'speech' | 'transcription'>): number | null {
  const facts = factsOf('elevenlabs', model)
  if (facts === undefined) throw new Error(`the table has no ${model}`)
  const payload = operation === 'speech' ? THOUSAND : HOUR
  return meter(operation, payload, NOTHING_TOLD, facts.price).costUsd
}

t.test('1,000 characters of speech', async (t) => {
  t.equal(costOf('eleven_flash_v2_5', 'speech'), 0.05, 'low latency')
  t.equal(costOf('eleven_turbo_v2_5', 'speech'), 0.05, 'low latency')
  t.equal(costOf('eleven_multilingual_v2', 'speech'), 0.1, 'multilingual')
  t.equal(costOf('eleven_v3', 'speech'), 0.1, 'latest generation')
})

t.test('one hour of audio', async (t) => {
  t.equal(costOf('scribe_v2', 'transcription'), 0.22)
})

t.test('many small calls cost what one large one does', async (t) => {
  const price = factsOf('elevenlabs', 'eleven_flash_v2_5')?.price ?? null
  const one = meter('speech', speechCall({ input: 'a' }).payload, NOTHING_TOLD, price).costUsd ?? Number.NaN
  t.equal(Math.round(one * 1_000_000) * 1000, 50_000)
})
