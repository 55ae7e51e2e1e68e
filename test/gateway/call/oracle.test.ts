import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import t from 'tap'
import { HINTS, type TranscriptionCall } from '../../../src/contracts/calls.ts'
import { errorReply } from '../../../src/contracts/errors.ts'
import type { ModelFacts } from '../../../src/contracts/provider.ts'
import { unheededHints } from '../../../src/gateway/call/facts/hints.ts'
import { select } from '../../../src/gateway/call/select/selection.ts'
import { explainRows } from '../../../src/gateway/call/select/verdict.ts'
import { Dice } from '../../support/dice.ts'
import { type Case, drawCase } from './oracle-cases.ts'
import { type Expected, expected, neededFeatures } from './oracle-rules.ts'
import { selectionInput } from './selection.ts'

const CASES = 10_000
const SEED = Number(process.env.ORACLE_SEED ?? randomInt(2 ** 32))

const OUTCOMES = [
  ...['workspace', 'unpublished', 'not_pinned', 'duplicate', 'capability', 'operation', 'plan', 'features'],
  ...['limits', 'cooling', 'breaker', 'profile', 'taken', 'last resort'],
  ...['none', 'purpose_unknown', 'purpose_unavailable', 'fallback_purpose_exhausted'],
  ...[
    'NO_HEALTHY_PROVIDER',
    'PROVIDERS_COOLING_DOWN',
    'INVALID_REQUEST',
    'REQUIRED_FEATURE_UNAVAILABLE',
    'PLAN_NOT_ENTITLED',
  ],
]

t.test(`${CASES} configurations and requests, judged twice`, { timeout: 60_000 }, async (t) => {
  t.comment(`ORACLE_SEED=${SEED}`)
  const seen = new Map<string, number>()
  const dice = new Dice(SEED)
  for (let index = 0; index < CASES; index += 1) {
    const given = drawCase(dice)
    const wanted = expected(given)
    try {
      compare(given, wanted, dice)
    } catch (error) {
      t.fail(`case ${index} of seed ${SEED}: ${(error as Error).message}`)
      return
    }
    const outcome = wanted.lastResort ? 'last resort' : (wanted.code ?? 'taken')
    for (const what of [outcome, wanted.purposeSource, ...wanted.lines.map(({ verdict }) => verdict)])
      seen.set(what, (seen.get(what) ?? 0) + 1)
  }
  // The draws reach every outcome often enough to mean something.
  for (const what of OUTCOMES) t.ok((seen.get(what) ?? 0) >= 30, `${what}: ${seen.get(what) ?? 0}`)
})

/** Selection, its explanation and the oracle agree on a case, or this throws. */
function compare(given: Case, wanted: Expected, dice: Dice): void {
  const { considered, selection, refusal } = select(
    selectionInput(given.operation, given.principal, given.call, {
      random: () => dice.roll(),
      health: { view: (entry) => given.health.get(entry)! },
      latency: { medianMs: (entry) => given.mediansMs.get(entry) ?? 0 },
      nowMs: given.nowMs,
    }),
  )
  const rows = explainRows(considered)
  const lines = wanted.lines.map(({ route, entry, group, verdict }) => [
    route.name,
    entry.model,
    group,
    verdict,
  ])
  assert.deepEqual(
    rows.map(({ route, model, group, left }) => [route, model, group, left ?? 'taken']),
    lines,
  )
  for (const row of rows) assert.equal(row.left === null, row.rank !== null, 'each entry has one verdict')

  const candidates = selection?.candidates ?? []
  assert.equal(
    candidates.length,
    wanted.taken.reduce((sum, group) => sum + group.lines.length, 0),
  )
  let from = 0
  for (const { lines, drawn } of wanted.taken) {
    const [got, want] = [candidates.slice(from, from + lines.length), lines].map((list) =>
      list.map(({ entry }) => entry.model),
    )
    if (drawn) assert.deepEqual(got?.toSorted(), want?.toSorted())
    else assert.deepEqual(got, want)
    from += lines.length
  }
  const ranked = rows.filter(({ rank }) => rank !== null).toSorted((a, b) => Number(a.rank) - Number(b.rank))
  assert.deepEqual(
    ranked.map(({ rank, route, model }) => [rank, route, model]),
    candidates.map(({ route, entry }, index) => [index + 1, route.name, entry.model]),
  )
  for (const { route, entry, forPurpose } of candidates) {
    const line = wanted.lines.find(
      (one) => one.route === route && one.entry === entry && one.verdict === 'taken',
    )
    assert.equal(forPurpose, line?.group === 'purpose')
    checkHints(given, entry.facts)
  }
  assert.equal(refusal?.code ?? null, wanted.code)
  if (selection === null) {
    const header = refusal === null ? undefined : errorReply(refusal, 'req_1').headers['retry-after']
    assert.equal(header === undefined ? null : Number(header), wanted.retryAfterSeconds)
    return
  }
  assert.equal(candidates[0]?.lastResort ?? false, wanted.lastResort)
  assert.equal(selection.purpose.otherwise, wanted.purposeSource)
  assert.equal(selection.warnings.length, Number(wanted.profileIgnored))
}

/** What is left of the hints can go together, and none was left out without need. */
function checkHints({ operation, call }: Case, facts: ModelFacts): void {
  if (operation !== 'transcription' && operation !== 'translation') return
  const { options } = call.payload as TranscriptionCall
  const lacked: readonly string[] = unheededHints(facts, options)
  const given = HINTS.filter((hint) => (options[hint] ?? false) !== false)
  const heeded: string[] = [...neededFeatures(options), ...given.filter((hint) => !lacked.includes(hint))]
  const inConflict = (names: readonly string[]) =>
    (facts.conflicts ?? []).some((set) => set.every((member) => names.includes(member)))
  assert.ok(!inConflict(heeded), 'what is heeded goes together')
  for (const hint of given) {
    if (!lacked.includes(hint)) assert.ok(facts.hints.includes(hint))
    else if (facts.hints.includes(hint) && facts.languages?.[hint] === undefined)
      assert.ok(inConflict([...heeded, ...given]), `${hint} was left out without need`)
  }
  for (const hint of lacked) assert.ok((given as readonly string[]).includes(hint), 'only what was given')
}
