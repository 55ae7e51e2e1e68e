import { test } from 'tap'
import { Cancellation } from '../../src/contracts/cancellation.ts'
import {
  nextTurn,
  ownTurn,
  sleep,
  systemClock,
  TimeoutError,
  timed,
  unlessAborted,
  within,
} from '../../src/contracts/time.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

/** Longer than any of these tests runs: a limit that must not be reached. */
const NEVER_MS = 600_000

const never = () => new Promise<never>(() => {})
const held = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length

/** A step that does nothing but end when it is told to. */
const untilEnded = (ended: AbortSignal) =>
  new Promise<never>((_, reject) => ended.addEventListener('abort', () => reject(ended.reason)))

test('work that comes in time is passed on, with its value or its error, and leaves no timer', async (t) => {
  const before = held()
  t.equal(await within(NEVER_MS, Promise.resolve(7)), 7)
  await t.rejects(within(NEVER_MS, Promise.reject(new Error('broken'))), { message: 'broken' })
  t.equal(await timed(NEVER_MS, new AbortController().signal, async () => 8), 8)
  const broken = timed(NEVER_MS, new AbortController().signal, () => Promise.reject(new Error('broken')))
  await t.rejects(broken, { message: 'broken' })
  await sleep(systemClock, 1)
  t.equal(held(), before, 'no timer is left')
})

test('work that takes too long is given up with TimeoutError', async (t) => {
  await t.rejects(within(1, never()), new TimeoutError('no answer within 1 ms'))
  await t.rejects(timed(1, new AbortController().signal, untilEnded), new TimeoutError('took over 1 ms'))
})

test('an answer that lies there after a long task of this process is in time', async (t) => {
  const answer = new Promise((resolve) => setImmediate(resolve, 'there'))
  const waiting = within(5, answer)
  const untilMs = performance.now() + 20
  while (performance.now() < untilMs);
  t.equal(await waiting, 'there')
})

test('a caller that leaves ends the step with its own reason', async (t) => {
  const caller = new AbortController()
  const step = timed(NEVER_MS, caller.signal, untilEnded)
  caller.abort(new Error('the caller left'))
  await t.rejects(step, { message: 'the caller left' })
  let began = false
  const late = timed(NEVER_MS, caller.signal, async () => {
    began = true
  })
  await t.rejects(late, { message: 'the caller left' })
  t.notOk(began, 'nothing begins for a caller that has left already')
})

test('waiting ends when the signal aborts, before or during the work', async (t) => {
  const caller = new AbortController()
  t.equal(await unlessAborted(caller.signal, Promise.resolve(7)), 7)
  await t.rejects(unlessAborted(caller.signal, Promise.reject(new Error('broken'))), { message: 'broken' })
  const waiting = unlessAborted(caller.signal, never())
  caller.abort(new Error('the caller left'))
  await t.rejects(waiting, { message: 'the caller left' })
  await t.rejects(unlessAborted(caller.signal, Promise.resolve(7)), { message: 'the caller left' })
  // An unhandled rejection would end the process.
  await t.rejects(unlessAborted(caller.signal, Promise.reject(new Error('ignored'))), {
    message: 'the caller left',
  })
})

test('a signal that outlives much work holds no listener of it', async (t) => {
  const caller = new AbortController()
  let listeners = 0
  const { addEventListener, removeEventListener } = caller.signal
  caller.signal.addEventListener = (...args: unknown[]) => {
    listeners += 1
    Reflect.apply(addEventListener, caller.signal, args)
  }
  caller.signal.removeEventListener = (...args: unknown[]) => {
    listeners -= 1
    Reflect.apply(removeEventListener, caller.signal, args)
  }
  for (let i = 0; i < 5; i++) await unlessAborted(caller.signal, sleep(systemClock, 1))
  await timed(NEVER_MS, caller.signal, () => sleep(systemClock, 1))
  await sleep(systemClock, 1)
  t.equal(listeners, 0)
})

test('timers of a virtual clock fire in order, and a wait ends at its time or with its signal', async (t) => {
  const clock = new VirtualClock()
  const fired: string[] = []
  const note = (name: string) => () => fired.push(`${name} ${clock.now()}`)
  clock.after(30, note('late'))
  clock.after(10, note('first'))
  clock.after(10, note('second')).unref()
  clock.after(20, note('cancelled')).close()
  const beat = clock.every(15, note('beat'))
  const moved = clock.after(5, note('moved'))
  await clock.advance(4)
  moved.refresh()
  await clock.advance(36)
  t.same(fired, ['moved 9', 'first 10', 'second 10', 'beat 15', 'late 30', 'beat 30'])
  beat.close()
  t.same(clock.dueInMs, [])

  const slept = sleep(clock, 100)
  const left = new Cancellation()
  const ended = sleep(clock, 100, { signal: left, ref: false })
  left.abort(new Error('the caller left'))
  await t.rejects(ended, { message: 'the caller left' })
  await t.rejects(sleep(clock, 100, { signal: left }), { message: 'the caller left' })
  await clock.armed(100)
  t.same(clock.dueInMs, [100], 'a wait that has ended leaves no timer')
  await clock.advance(100)
  await slept
  t.equal(clock.wallNow() - clock.now(), Date.UTC(2026, 0, 1))
})

test('those who wait for a turn of their own have one each, in their order', async (t) => {
  const seen: number[] = []
  const work = async (name: number) => {
    for (let round = 0; round < 2; round += 1) {
      await ownTurn()
      seen.push(name)
    }
  }
  const all = Promise.all([1, 2, 3].map(work))
  const counts: number[] = []
  while (seen.length < 6) {
    await nextTurn()
    counts.push(seen.length)
  }
  await all
  t.same(seen, [1, 2, 3, 1, 2, 3])
  t.ok(
    counts.every((count, turn) => count - (counts[turn - 1] ?? 0) <= 1),
    `${counts}`,
  )
  await ownTurn()
  t.pass('and who comes later, too')
})
