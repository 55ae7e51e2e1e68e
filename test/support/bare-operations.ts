import type { Test } from 'tap'
import { createCommit } from '../../src/gateway/state/embedded/commit.ts'
import { openDatabase } from '../../src/gateway/state/embedded/database.ts'
import { createOperations } from '../../src/gateway/state/embedded/operations.ts'
import { stateOf } from '../../src/gateway/state/embedded/state.ts'
import { tempFolder } from './scratch.ts'
import { emptyStateIn } from './state-file.ts'
import type { StateUnderTest } from './state-under-test.ts'

/**
 * The operations of the embedded state without their thread, on a clock of the test's own: no step of a test can take
 * longer than the times that it gives. Arguments and answers are cloned, as on the way to the thread and back.
 */
export async function startBareOperations(t: Test): Promise<StateUnderTest> {
  let nowMs = Date.now()
  const db = openDatabase(await emptyStateIn(await tempFolder(t)))
  db.exec('PRAGMA synchronous = OFF')
  t.teardown(() => db.close())
  const commit = createCommit(
    db,
    createOperations(db, () => nowMs),
  )
  const state = stateOf({
    async call(subject, method, args) {
      const [answer] = structuredClone(commit([structuredClone({ id: 1, subject, method, args })])).answers
      if (answer && 'value' in answer) return answer.value
      throw new Error(answer?.failure.reason)
    },
    blocked: () => null,
    close: async () => {},
  })
  return {
    state,
    pass: async (ms) => {
      nowMs += ms
    },
    setClock: (epochMs) => {
      nowMs = epochMs
    },
  }
}
