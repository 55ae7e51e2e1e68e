import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import t from 'tap'
import type { OperationName } from '../../../src/contracts/operations.ts'
import type { RecordedCall } from '../../../src/contracts/sample.ts'
import type { Call } from '../../../src/gateway/call/facts/call.ts'
import { recordedCall, recordedSample, sampleCall } from '../../../src/gateway/call/select/sample.ts'
import { select } from '../../../src/gateway/call/select/selection.ts'
import { callOf } from '../../support/call.ts'
import { principal } from '../../support/catalog.ts'
import { Dice } from '../../support/dice.ts'
import { type Case, drawCase } from './oracle-cases.ts'
import { chatOf, plainCall, selectionInput } from './selection.ts'

const CASES = 3_000
const SEED = Number(process.env.ORACLE_SEED ?? randomInt(2 ** 32))

/** As it comes out of the state again. */
const kept = (call: Call, who = principal()) =>
  JSON.parse(JSON.stringify(recordedCall(call, who))) as RecordedCall

/** The models that are tried, in order, or the code of the refusal. */
function outcomeOf(given: Case, call: Call, seed: number) {
  const chance = new Dice(seed)
  const { selection, refusal } = select(
    selectionInput(given.operation, given.principal, call, {
      random: () => chance.roll(),
      health: { view: (entry) => given.health.get(entry)! },
      latency: { medianMs: (entry) => given.mediansMs.get(entry) ?? 0 },
      nowMs: given.nowMs,
    }),
  )
  if (selection === null) return refusal.code
  return selection.candidates.map(({ route, entry }) => `${route.name} ${entry.model}`)
}

t.test('what is recorded of a call selects as the call did', async (t) => {
  t.comment(`ORACLE_SEED=${SEED}`)
  const dice = new Dice(SEED)
  const seen = { whole: 0, refused: 0, partly: 0 }
  const operations = new Set<OperationName>()
  for (let index = 0; index < CASES; index += 1) {
    const given = drawCase(dice)
    const recorded = kept(given.call, given.principal)
    if (recorded.unrecorded !== undefined) {
      seen.partly += 1
      continue
    }
    const again = sampleCall(recorded.operation, recordedSample(recorded))
    const [before, after] = [given.call, again].map((call) => outcomeOf(given, call, index))
    assert.deepEqual(after, before, `case ${index} of seed ${SEED}: ${JSON.stringify(recorded)}`)
    seen.whole += 1
    if (typeof before === 'string') seen.refused += 1
    operations.add(given.operation)
  }
  t.equal(operations.size, 9, 'every operation')
  t.ok(seen.whole > 1_000 && seen.refused > 300, JSON.stringify(seen))
})

t.test('nothing is recorded that only the caller knows', async (t) => {
  const word = 'zanzibar'
  const speech = callOf('speech', {
    ...{ input: word, voice: word, response_format: word, speed: null, seed: null },
  })
  const chat = callOf('chat', {
    ...chatOf([{ type: 'text', text: word }]),
    response_schema: { type: 'object', title: word },
  })
  const image = callOf('image', {
    ...plainCall('image').payload,
    size: word,
    output_format: word,
    prompt: word,
  })
  const selectors = { purpose: { label: word, source: 'body' as const }, responseProfile: null }
  for (const call of [speech, chat, image, { ...chat, selectors }] as Call[])
    t.notMatch(JSON.stringify(kept(call)), word, call.operation)
  t.match(kept(speech as Call), { sample: { characters: 8 }, unrecorded: ['voice', 'response_format'] })
  t.match(kept(chat as Call), { unrecorded: ['response_schema'] })
  t.match(kept(image as Call), { unrecorded: ['size', 'output_format'] })
  const require = { regions: [['eu']], retentionDays: null, noTraining: false }
  t.match(kept({ ...chat, selectors: { ...selectors, purpose: null, require } } as Call), {
    unrecorded: ['response_schema', 'require'],
  })
})
