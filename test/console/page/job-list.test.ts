import t from 'tap'
import { canCancel, hasEnded, jobSteps, standing } from '../../../src/console/page/views/jobs/one-job.ts'
import { jobsQuery, readJobFilter } from '../../../src/console/page/views/jobs/view.ts'
import { domainsOf, withDomains } from '../../../src/console/page/views/settings/view.ts'
import type { JobAnswer } from '../../../src/console/server/answers/jobs.ts'
import { JOB_STATUSES } from '../../../src/contracts/jobs.ts'

const job = (more: Partial<JobAnswer> = {}): JobAnswer => ({
  id: 'tj_1',
  kind: 'transcription',
  endpoint: 'transcription',
  mode: 'priority',
  app: 'web',
  key_id: 'key_web',
  status: 'queued',
  cancel_requested: false,
  created_at: '2026-11-20T09:00:00Z',
  started_at: null,
  completed_at: null,
  expires_at: null,
  attempts: 0,
  parts: null,
  error: null,
  policy_version_id: null,
  can_retry: false,
  has_result: false,
  ...more,
})

t.test('filters are fields of the address', async (t) => {
  t.equal(
    jobsQuery(readJobFilter(new URLSearchParams('kind=queue&status=failed')), 50),
    '?kind=queue&status=failed&limit=50',
  )
  t.equal(jobsQuery(readJobFilter(new URLSearchParams('kind=x&status=y')), 50), '?limit=50')
})

t.test('the state of a job', async (t) => {
  for (const status of JOB_STATUSES) t.ok(standing(job({ status })).endsWith('.'), status)
  t.match(standing(job({ attempts: 2 })), 'Re-queued')
  t.match(standing(job({ status: 'processing', attempts: 1, cancel_requested: true })), 'Cancelling')
  t.match(standing(job({ status: 'failed', attempts: 3, can_retry: true })), '3 attempts. You can retry it')
  t.same(
    JOB_STATUSES.filter((status) => hasEnded({ status })),
    ['succeeded', 'failed', 'cancelled'],
  )
  const parts = { done: 3, total: 14 }
  t.match(standing(job({ status: 'processing', attempts: 1, parts })), '3 of 14 parts')
  t.ok(canCancel(job()))
  t.notOk(canCancel(job({ cancel_requested: true })))
  t.notOk(canCancel(job({ status: 'succeeded' })))
})

t.test('the history of a job', async (t) => {
  const steps = jobSteps({
    history: [
      { at: '2026-11-20T09:00:00.000Z', status: 'queued', claim: 0 },
      { at: '2026-11-20T09:00:01.500Z', status: 'processing', claim: 1 },
      { at: '2026-11-20T09:00:02.000Z', status: 'queued', claim: 1 },
      { at: '2026-11-20T09:00:07.000Z', status: 'processing', claim: 2 },
      { at: '2026-11-20T09:00:08.000Z', status: 'succeeded', claim: 2 },
    ],
  })
  t.same(
    steps.map(({ text, milliseconds }) => [text, milliseconds]),
    [
      ['accepted', 1_500],
      ['started, run 1', 500],
      ['re-queued after run 1', 5_000],
      ['started, run 2', 1_000],
      ['succeeded in run 2', null],
    ],
  )
})

t.test('domains as people paste them', async (t) => {
  t.same(domainsOf('CDN.example.com, *.bücher.example\nhttps://a.example:8443/x.mp3?y#z  a.example.'), [
    'cdn.example.com',
    '*.bücher.example',
    'a.example',
  ])
  t.same(domainsOf(' \n,'), [])
  t.same(withDomains(['a'], ['b', 'a']), ['a', 'b'])
})
