import type { LogRecordAnswer } from '../../../server/answers/log.ts'
import type { RequestAnswer, RequestsAnswer } from '../../../server/answers/requests.ts'
import { api } from '../../api.ts'
import { Attempts } from '../../components/attempts.ts'
import { Badge } from '../../components/badge.ts'
import { Skeleton } from '../../components/states.ts'
import { number } from '../../format.ts'
import { h } from '../../h.ts'
import { useLoad } from '../../load.ts'
import { apiPath, queryOf } from '../../paths.ts'

/** The newest requests are kept for so long at most. */
const NEWEST_MS = 7 * 86_400_000
/** How far the two moments may be apart at which a request is told to have ended. */
const NEAR_MS = 1_000
const FOUND_MAX = 20

/** Attempts of a request and why they failed; with their durations while it is among the newest. */
export function Tries({ record }: { readonly record: LogRecordAnswer }) {
  const { tries, attempts, replayed, cache } = record
  const load = useLoad((signal) => recordedAs(record, signal), [record.record_id])
  // With bars it is higher.
  if (load.state === 'loading') return h(Skeleton, { rows: 2, label: 'The attempts: loading' })
  if (load.value !== null) return h(Attempts, { request: load.value })
  if (tries.length === 0)
    return h(
      'p',
      { class: 'quiet' },
      cache === 'hit'
        ? 'From the speech cache. No provider was called.'
        : replayed
          ? 'Replayed from an earlier request. No provider was called.'
          : 'No provider was called.',
    )
  const rest = attempts - tries.length
  return h(
    'ol',
    { class: 'attempts' },
    tries.map(({ provider, model, reason }, place) =>
      h(
        'li',
        { key: place, class: 'attempt' },
        h(
          'div',
          { class: 'attempt-words' },
          h('span', { class: 'attempt-place' }, place + 1),
          h('span', { class: 'mono attempt-name' }, provider, '/', model),
          h(Badge, { tone: reason === 'ok' ? 'ok' : 'bad' }, reason === 'ok' ? 'answered' : 'failed'),
        ),
        reason === 'ok' ? null : h('p', { class: 'small' }, reason),
      ),
    ),
    rest > 0 ? h('li', { class: 'quiet small' }, `${number(rest)} more not shown.`) : null,
  )
}

/** The same request among the newest, which have the durations of attempts; the ledger has only their reasons. */
async function recordedAs(record: LogRecordAnswer, signal: AbortSignal): Promise<RequestAnswer | null> {
  const endedMs = Date.parse(record.ended_at)
  if (record.kind !== 'call' || record.tries.length === 0 || Date.now() - endedMs > NEWEST_MS) return null
  const query = queryOf({
    request_id: record.request_id,
    after: endedMs - NEAR_MS,
    before: endedMs + NEAR_MS,
    limit: FOUND_MAX,
  })
  const path = apiPath`/workspaces/${record.workspace}/requests` + query
  const { requests } = await api.get<RequestsAnswer>(path, { signal })
  return requests.find((one) => isSameCall(one, record)) ?? null
}

/** Callers may repeat the id of a request: it has to have tried the same, too. */
export function isSameCall(
  { attempts, job_id: job, replayed }: Pick<RequestAnswer, 'attempts' | 'job_id' | 'replayed'>,
  { tries, replayed: isReplay }: Pick<LogRecordAnswer, 'tries' | 'replayed'>,
): boolean {
  return (
    job === null &&
    replayed === isReplay &&
    attempts.length === tries.length &&
    tries.every(({ provider, model, reason }, at) => {
      const one = attempts[at]
      return one?.provider === provider && one.model === model && (one.reason === 'ok') === (reason === 'ok')
    })
  )
}
