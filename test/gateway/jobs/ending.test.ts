import t from 'tap'
import { ERRORS, type ErrorCode, GatewayError } from '../../../src/contracts/errors.ts'
import type { Job } from '../../../src/contracts/jobs.ts'
import { TIMING } from '../../../src/gateway/jobs/claim.ts'
import { jobEnding } from '../../../src/gateway/jobs/run.ts'

const FACTS = { policy_version_id: 'pv_1', lk_applied_purpose: null, lk_purpose_source: null }

const ending = (thrown: unknown, job: Partial<Job>) =>
  jobEnding(thrown, { kind: 'transcription', retries: 0, returns: 0, ...job } as Job, FACTS, TIMING)

/** The delay of an ending that puts a job back. */
function delayOf(thrown: unknown, job: Partial<Job>, counts: 'retry' | 'return'): number {
  const ended = ending(thrown, job)
  if (ended.state !== 'queued' || ended.counts !== counts) throw new Error(`it is ${JSON.stringify(ended)}`)
  return ended.delayMs
}

t.test('what may have passed by the next time is tried again, anything else fails', async (t) => {
  const retried = ['UPSTREAM_ERROR', 'UPSTREAM_TIMEOUT']
  const returned = ['DEPENDENCY_UNAVAILABLE', 'OVERLOADED', 'PROVIDERS_COOLING_DOWN']
  for (const code of Object.keys(ERRORS) as ErrorCode[]) {
    const ended = ending(new GatewayError(code), {})
    if (ended.state === 'queued') t.ok((ended.counts === 'retry' ? retried : returned).includes(code), code)
    else t.match(ended, { state: 'failed', error: { code }, facts: FACTS }, code)
    t.equal(ended.state === 'queued', [...retried, ...returned].includes(code), code)
  }
})

t.test('a job is tried again after 5 s, 30 s and 2 min, each 20 % more or less', async (t) => {
  const failure = new GatewayError('UPSTREAM_ERROR')
  const seen = [0, 1, 2].map((retries) =>
    Array.from({ length: 200 }, () => delayOf(failure, { kind: 'queue', retries }, 'retry')),
  )
  for (const [index, ms] of [5_000, 30_000, 120_000].entries()) {
    const delays = seen[index] ?? []
    t.ok(Math.min(...delays) >= ms * 0.8 && Math.max(...delays) <= ms * 1.2, `around ${ms}`)
    t.ok(Math.max(...delays) - Math.min(...delays) > ms * 0.2, 'and not always the same')
  }
})

t.test('transcription jobs are tried again twice, jobs of the queue three times', async (t) => {
  const failure = new GatewayError('UPSTREAM_TIMEOUT')
  t.equal(ending(failure, { retries: 1 }).state, 'queued')
  t.match(ending(failure, { retries: 2 }), { state: 'failed', error: { code: 'UPSTREAM_TIMEOUT' } })
  t.equal(ending(failure, { kind: 'queue', retries: 2 }).state, 'queued')
  t.equal(ending(failure, { kind: 'queue', retries: 3 }).state, 'failed')
  t.equal(ending(failure, { retries: 0, returns: 70 }).state, 'queued', 'each by its own count')
})

t.test('providers that ask to be left alone are left alone, for a quarter of an hour at most', async (t) => {
  const errors = [
    { code: 'UPSTREAM_ERROR', counts: 'retry' },
    { code: 'PROVIDERS_COOLING_DOWN', counts: 'return' },
  ] as const
  for (const { code, counts } of errors) {
    const after = (retryAfterMs: number) =>
      delayOf(new GatewayError(code, undefined, { retryAfterMs }), {}, counts)
    const delays = Array.from({ length: 100 }, () => after(45_000))
    t.ok(Math.min(...delays) >= 45_000 && Math.max(...delays) <= 54_000, code)
    t.ok(new Set(delays).size > 1, 'those that wait do not come back together')
    t.ok(after(1_000) >= 4_000, 'no sooner than otherwise')
    t.equal(after(86_400_000), 15 * 60_000)
  }
})

t.test('what nobody was asked for is no try, and does not come back for ever', async (t) => {
  const failure = new GatewayError('PROVIDERS_COOLING_DOWN', undefined, { retryAfterMs: 1_000 })
  t.match(ending(failure, { retries: 2, returns: 19 }), { state: 'queued', counts: 'return' })
  t.match(ending(failure, { returns: 70 }), { state: 'failed', error: { code: 'PROVIDERS_COOLING_DOWN' } })
  const gap = new GatewayError('NO_HEALTHY_PROVIDER')
  t.equal(ending(gap, {}).state, 'failed', 'only another configuration cures that')
})

t.test('what our own stores failed at is tried again twenty times, ever later up to a minute', async (t) => {
  const failure = new GatewayError('DEPENDENCY_UNAVAILABLE')
  const delays = [0, 1, 2, 3, 4, 19].map((returns) => delayOf(failure, { returns, retries: 2 }, 'return'))
  t.same(delays, [5_000, 10_000, 20_000, 40_000, 60_000, 60_000])
  t.match(ending(failure, { returns: 70 }), { state: 'failed', error: { code: 'DEPENDENCY_UNAVAILABLE' } })
})

t.test('an error says what a caller is told, and never its cause', async (t) => {
  const extra = { param: 'audio', details: { limit: 'max_audio_seconds' }, cause: new Error('secret') }
  const ended = ending(new GatewayError('AUDIO_TOO_LONG', 'too long', extra), {})
  const error = {
    code: 'AUDIO_TOO_LONG',
    message: 'too long',
    param: 'audio',
    details: { limit: 'max_audio_seconds' },
  }
  t.same(ended, { state: 'failed', error, facts: FACTS })
  const unexpected = ending(new TypeError('secret'), {})
  t.same(unexpected, {
    state: 'failed',
    error: { code: 'INTERNAL', message: 'internal error', param: null, details: {} },
    facts: FACTS,
  })
})
