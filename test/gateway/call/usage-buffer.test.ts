import t from 'tap'
import type { UsageBatch } from '../../../src/contracts/ledger.ts'
import { createLogger } from '../../../src/contracts/log.ts'
import { systemClock } from '../../../src/contracts/time.ts'
import { createUsageBuffer } from '../../../src/gateway/call/money/accounts.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

/** Accounts that take batches unless they are away; a batch that comes again by its token counts once. */
function accounts() {
  const batches = new Map<string, UsageBatch>()
  const state = { away: false, lostAnswers: 0, commands: 0 }
  return {
    state,
    spent: () =>
      [...batches.values()].flatMap(({ spentMicros }) => Object.values(spentMicros)).reduce(plus, 0),
    async addUsage(batch: UsageBatch) {
      state.commands += 1
      if (state.away) throw new Error('away')
      batches.set(batch.token, batch)
      if (state.lostAnswers > 0) {
        state.lostAnswers -= 1
        throw new Error('the answer was lost')
      }
    },
  }
}

const plus = (a: number, b: number) => a + b

t.test('many calls are one batch per workspace', async (t) => {
  const book = accounts()
  const usage = createUsageBuffer({ accounts: book, log: createLogger('silent'), clock: systemClock })
  for (let i = 0; i < 1000; i++) usage.note(i % 2 ? 'acme' : 'other', `key_${i % 10}`, 3)
  usage.note('free', 'key_1', 0)
  await usage.close()
  t.equal(book.state.commands, 2)
  t.equal(book.spent(), 3000)
})

t.test('nothing is lost or counted twice while the state comes and goes', async (t) => {
  const book = accounts()
  const clock = new VirtualClock()
  const usage = createUsageBuffer({ accounts: book, log: createLogger('silent'), clock })
  book.state.away = true
  for (let i = 0; i < 20; i++) {
    for (const workspace of ['a', 'b', 'c']) usage.note(workspace, 'key', 7)
    await clock.advance(100)
  }
  t.equal(book.state.commands, 2, 'an outage costs one command a second, whatever waits')
  book.state.away = false
  book.state.lostAnswers = 2
  await clock.advance(5_000)
  t.equal(book.spent(), 20 * 3 * 7)
  await usage.close()
  t.equal(book.spent(), 20 * 3 * 7)
})

t.test('what may have been counted is not sent again when the state may have forgotten it', async (t) => {
  const book = accounts()
  const clock = new VirtualClock()
  const usage = createUsageBuffer({ accounts: book, log: createLogger('silent'), clock })
  usage.note('acme', 'key', 5)
  book.state.lostAnswers = 1
  await clock.advance(1_000)
  book.state.away = true
  usage.note('acme', 'key', 7)
  await clock.advance(56 * 60_000)
  const { commands } = book.state
  book.state.away = false
  await clock.advance(2_000)
  t.equal(book.spent(), 12)
  t.equal(book.state.commands, commands + 1, 'only what came since')
  await usage.close()
})
