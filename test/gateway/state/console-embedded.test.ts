import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import { startBareOperations } from '../../support/bare-operations.ts'
import { consoleSession, requestFilter, requestRecord } from '../../support/console-record.ts'
import { tempFolder } from '../../support/scratch.ts'
import { emptyStateIn } from '../../support/state-file.ts'
import { newToken, newWorkspace, type StateUnderTest } from '../../support/state-under-test.ts'
import { consoleContract } from './console.contract.ts'

const log = pino({ level: 'silent' })

async function startFile(t: Test): Promise<StateUnderTest> {
  const state = await openEmbeddedState({ file: await emptyStateIn(await tempFolder(t)), log })
  t.teardown(() => state.close())
  return { state, pass: (ms) => sleep(ms), setClock: null }
}

t.test('operations', async (t) => consoleContract(t, startBareOperations))
t.test('a file', async (t) => consoleContract(t, startFile))

t.test('what the console keeps is there after a restart', async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const workspace = newWorkspace()
  const session = consoleSession()
  const [record, token] = [requestRecord(workspace), newToken()]
  const first = await openEmbeddedState({ file, log })
  await first.console.sessions.begin(session, 3_600_000)
  await first.console.requests.add(token, [record])
  await first.settings.putContentShown(workspace, true)
  await first.close()

  const second = await openEmbeddedState({ file, log })
  t.teardown(() => second.close())
  t.match(await second.console.sessions.find(session.id), session)
  await second.console.requests.add(token, [record])
  t.same(await second.console.requests.list(requestFilter(workspace)), [record], 'the batch is known')
  t.equal(await second.settings.contentShown(workspace), true)
})
