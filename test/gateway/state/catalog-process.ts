import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import type { CatalogChange, CatalogChanged, RecordName } from '../../../src/contracts/catalog-store.ts'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import { createRedisState } from '../../../src/gateway/state/redis/state.ts'
import { changeOf, draft, noteOf, publish, routeOf } from '../../support/catalog-under-test.ts'

/**
 * What a process does with a catalog that others change too. `race`: so many changes of the version that it has just
 * read, some at a time, each told on standard output with what it came to: `r <token> <expected> <version>`, or
 * `conflict` instead of the version. `pairs`: changes without end, each of two records at once, told before it is sent
 * (`s <lane> <n> <token>`) and when it is acknowledged (`d <lane> <n>`).
 */
export interface CatalogOrder {
  /** A file of SQLite, or the address of a Redis. */
  readonly place: string
  readonly work: 'race' | 'pairs'
  readonly count: number
  /** Tells the changes of this process from those of others. */
  readonly name: string
}

/** So many changes are under way at a time. */
const LANES = 8
/** How long a change is sent again before the process gives up. */
const LIMIT_MS = 30_000

/** The records that are changed in a race. */
export const RACED: readonly RecordName[] = ['one', 'two', 'three'].map((name) => routeOf('acme', name))

/** A change of a lane: both of its records say the same, and so do two lines of the audit list. */
export function pairOf(lane: string, n: number, token: string): CatalogChange {
  const [first, second] = pairRecords(lane)
  const fields = { n }
  const audit = ['first', 'second'].map((half) => noteOf({ action: half, target: `${lane} ${n}` }))
  return changeOf([publish(first, fields), publish(second, fields), draft(first, fields)], { token, audit })
}

export const pairRecords = (lane: string): [RecordName, RecordName] => [
  routeOf('acme', `${lane}.first`),
  routeOf('acme', `${lane}.second`),
]

if (import.meta.main) await work(JSON.parse(process.argv[2] ?? '') as CatalogOrder)

async function work({ place, work, count, name }: CatalogOrder): Promise<void> {
  const log = pino({ level: 'silent' })
  const isRedis = place.startsWith('redis:')
  const state = await (isRedis
    ? createRedisState({ url: place, log })
    : openEmbeddedState({ file: place, log }))
  const { catalog } = state
  const say = (line: string) => process.stdout.write(`${line}\n`)
  let left = count

  const race = async (lane: number): Promise<void> => {
    for (; left > 0; ) {
      left -= 1
      const token = `${name}-${lane}-${left}`
      const expected = await insist(() => catalog.version())
      const record = RACED[left % RACED.length]!
      const over = { token, expected, audit: [noteOf({ detail: token })] }
      const change = changeOf([publish(record, { token })], over)
      const changed = await insist(() => catalog.change(change))
      say(`r ${token} ${expected} ${changed.state === 'done' ? changed.version : 'conflict'}`)
    }
  }
  const pairs = async (number: number): Promise<never> => {
    for (let n = 1; ; n++) {
      const token = randomUUID()
      const lane = `${name}.${number}`
      say(`s ${lane} ${n} ${token}`)
      const changed: CatalogChanged = await insist(() => catalog.change(pairOf(lane, n, token)))
      if (changed.state === 'done') say(`d ${lane} ${n}`)
    }
  }
  await Promise.all(Array.from({ length: LANES }, (_, lane) => (work === 'race' ? race(lane) : pairs(lane))))
  await state.close()
}

/** Sends it again until it is answered: whether it was done before is for the state to know. */
async function insist<Answer>(send: () => Promise<Answer>): Promise<Answer> {
  const deadlineMs = performance.now() + LIMIT_MS
  for (;;) {
    try {
      return await send()
    } catch (error) {
      const isAway = error instanceof GatewayError && error.code === 'DEPENDENCY_UNAVAILABLE'
      if (!isAway || performance.now() > deadlineMs) throw error
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}
