import fc from 'fast-check'
import t from 'tap'
import type { Failure, FailureKind } from '../../../src/contracts/upstream.ts'
import { createCircuitBreakers, type EntryHealth } from '../../../src/gateway/call/select/health.ts'
import { entry } from '../../support/catalog.ts'

type Event =
  | { readonly kind: 'pass'; readonly milliseconds: number }
  | { readonly kind: 'succeed' | 'admit' | 'release' }
  | { readonly kind: 'fail'; readonly failure: Failure }

/** The breaker as its rules are told: it keeps every call and looks them all through each time. */
class KeepsEverything {
  #calls: { readonly second: number; readonly failed: boolean }[] = []
  #opened: number | null = null
  #trial: number | null = null
  #coolings: number[] = []

  view(now: number): EntryHealth {
    const cooling = Math.max(0, ...this.#coolings)
    if (cooling > now) return { state: 'cooling', untilMs: cooling, openedAtMs: this.#opened }
    if (this.#opened === null) return { state: 'closed', untilMs: null, openedAtMs: null }
    const half = this.#opened + 10_000
    if (now < half) return { state: 'open', untilMs: half, openedAtMs: this.#opened }
    const untilMs = this.#trial === null ? half : this.#trial + 600_000
    return { state: 'half_open', untilMs, openedAtMs: this.#opened }
  }

  admit(now: number): boolean {
    const { state, untilMs } = this.view(now)
    if (state === 'half_open' && untilMs !== null && untilMs <= now) {
      this.#trial = now
      return true
    }
    return state === 'closed'
  }

  release(): void {
    this.#trial = null
  }

  report(now: number, failure: Failure | null): void {
    if (failure?.kind === 'caller' || failure?.kind === 'content') {
      this.#trial = null
      return
    }
    if (failure?.retryAfterMs) this.#coolings.push(now + failure.retryAfterMs)
    if (this.#trial !== null) {
      this.#trial = null
      this.#calls = []
      this.#opened = failure === null ? null : now
    } else if (this.#opened === null) {
      this.#calls.push({ second: Math.floor(now / 1000), failed: failure !== null })
      if (this.#isFailing(Math.floor(now / 1000))) {
        this.#opened = now
        this.#calls = []
      }
    }
  }

  #isFailing(second: number): boolean {
    const lastFive = this.#calls.slice(-5)
    if (lastFive.length === 5 && lastFive.every(({ failed }) => failed)) return true
    const recent = this.#calls.filter((call) => call.second > second - 30)
    return recent.length >= 20 && recent.filter(({ failed }) => failed).length * 2 >= recent.length
  }
}

const kinds: FailureKind[] = ['rate', 'server', 'ambiguous', 'caller', 'content']
const someFailure = fc.record({
  kind: fc.constantFrom(...kinds),
  status: fc.constant(500),
  reason: fc.constant('the provider failed'),
  retryAfterMs: fc.option(fc.integer({ min: 0, max: 40_000 }), { freq: 6 }),
  providerMessage: fc.constant(null),
})
const passing = (max: number) =>
  fc.record({ kind: fc.constant('pass' as const), milliseconds: fc.integer({ min: 0, max }) })
const someEvent: fc.Arbitrary<Event> = fc.oneof(
  { weight: 6, arbitrary: passing(1500) },
  { weight: 2, arbitrary: passing(12_000) },
  { weight: 1, arbitrary: passing(700_000) },
  { weight: 9, arbitrary: fc.constant<Event>({ kind: 'succeed' }) },
  { weight: 9, arbitrary: fc.record({ kind: fc.constant('fail' as const), failure: someFailure }) },
  { weight: 6, arbitrary: fc.constant<Event>({ kind: 'admit' }) },
  { weight: 1, arbitrary: fc.constant<Event>({ kind: 'release' }) },
)

const failing = (retryAfterMs: number | null): Event => ({
  kind: 'fail',
  failure: {
    kind: 'server',
    status: 500,
    reason: 'the provider failed',
    retryAfterMs,
    providerMessage: null,
  },
})
/** Opens by five failures in a row, is half open when its time is over, closes, and cools down. */
const EVERY_STATE: Event[] = [
  ...Array.from({ length: 5 }, () => failing(null)),
  { kind: 'pass', milliseconds: 12_000 },
  { kind: 'admit' },
  { kind: 'succeed' },
  failing(1_000),
]

t.test('whatever happens, it does what a list of all calls would say', async (t) => {
  const seen = new Set<string>()
  fc.assert(
    fc.property(fc.array(someEvent, { minLength: 50, maxLength: 250 }), fc.nat(5000), (events, startMs) => {
      const [book, model, one] = [createCircuitBreakers(), new KeepsEverything(), entry()]
      let nowMs = startMs
      for (const event of events) {
        if (event.kind === 'pass') nowMs += event.milliseconds
        else if (event.kind === 'admit') {
          if (book.admit(one, nowMs) !== model.admit(nowMs)) return false
        } else if (event.kind === 'release') {
          book.released(one)
          model.release()
        } else {
          const failure = event.kind === 'fail' ? event.failure : null
          if (failure === null) book.succeeded(one, nowMs)
          else book.failed(one, failure, nowMs)
          model.report(nowMs, failure)
        }
        const view = book.view(one, nowMs)
        seen.add(view.state)
        if (JSON.stringify(view) !== JSON.stringify(model.view(nowMs))) return false
      }
      return true
    }),
    { numRuns: 500, examples: [[EVERY_STATE, 0]] },
  )
  t.same([...seen].sort(), ['closed', 'cooling', 'half_open', 'open'], 'every state was reached')
})
