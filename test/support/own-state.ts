import { GatewayError } from '../../src/contracts/errors.ts'
import type { Blocked, State } from '../../src/contracts/state.ts'
import { type Clock, nextTurn, sleep, systemClock } from '../../src/contracts/time.ts'
import { type Answer, createCommit } from '../../src/gateway/state/embedded/commit.ts'
import { openDatabase, StateDatabase } from '../../src/gateway/state/embedded/database.ts'
import { createOperations } from '../../src/gateway/state/embedded/operations.ts'
import { unavailable } from '../../src/gateway/state/embedded/pending-calls.ts'
import { stateOf } from '../../src/gateway/state/embedded/state.ts'
import type { Runner } from '../../src/gateway/state/embedded/subjects.ts'

/*
 * Embedded states without a thread of their own, for tests of what uses one: it takes up to 150 ms of CPU. Calls are
 * answered in a later turn, in their order, as by a thread.
 */

/** A state in memory. */
export function memoryState(clock: Clock = systemClock): State {
  const db = new StateDatabase(':memory:', { enableForeignKeyConstraints: false })
  statements ??= emptyState()
  db.exec(statements)
  return stateIn(db, clock)
}

/** A state in a file, which other processes may open, too. */
export function fileState(file: string, clock: Clock = systemClock): State {
  return stateIn(openDatabase(file, { clock, busyMs: 0 }), clock)
}

/** Longest that a call waits for another connection, and how often it looks, ms, as a thread does. */
const BUSY_MS = 8_000
const LOOK_MS = 2

function isBusy(answer: Answer | undefined): boolean {
  return answer !== undefined && 'failure' in answer && answer.failure.reason === 'database is locked'
}

function stateIn(db: StateDatabase, clock: Clock): State {
  const commit = createCommit(
    db,
    createOperations(db, () => clock.wallNow()),
  )
  let blocked: Blocked | null = null
  const runner: Runner = {
    async call(subject, method, args) {
      const call = { id: 1, subject, method, args: structuredClone(args) }
      await nextTurn()
      const untilMs = performance.now() + BUSY_MS
      let done = commit([call])
      // Another connection may write; it may be one of this thread, which then has to go on.
      while (isBusy(done.answers[0]) && performance.now() < untilMs) {
        await sleep(systemClock, LOOK_MS)
        done = commit([call])
      }
      const { answers, wrote } = done
      const [answer] = answers
      if (wrote) blocked = null
      if (answer !== undefined && 'value' in answer) return structuredClone(answer.value)
      const { reason, unavailable: isAway, blocked: why } = answer!.failure
      blocked ??= why
      throw isAway
        ? unavailable(reason)
        : new GatewayError('INTERNAL', undefined, { cause: new Error(reason) })
    },
    blocked: () => blocked,
    close: async () => {
      await nextTurn()
      db.close()
    },
  }
  return stateOf(runner, clock)
}

/** Statements that make an empty state: a tenth of the time that the steps to the present format take. */
let statements: string | undefined

function emptyState(): string {
  const db = openDatabase(':memory:')
  const all = (sql: string) => db.prepare(sql).all() as Record<string, string | number | null>[]
  const schema = all('SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL').map(({ sql }) => sql)
  const rows = all("SELECT name FROM sqlite_schema WHERE type = 'table'").flatMap(({ name }) =>
    all(`SELECT * FROM ${name}`).map(
      (row) => `INSERT INTO ${name} VALUES (${Object.values(row).map((value) => JSON.stringify(value))})`,
    ),
  )
  db.close()
  return [...schema, ...rows].join(';\n')
}
