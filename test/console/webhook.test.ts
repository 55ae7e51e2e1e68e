import t, { type Test } from 'tap'
import { newId, newJobId } from '../../src/contracts/ids.ts'
import type { JobKind } from '../../src/contracts/jobs.ts'
import { auditAfter, type ConsoleBench, sameFor, startConsoleBench } from '../support/console-bench.ts'
import { KEEP, specOf } from '../support/jobs-under-test.ts'
import { answering, type Behaviour, startReceiver } from '../support/webhook-receiver.ts'
import { forged, isVerified } from '../support/webhook-signatures.ts'

const HOOK = 'workspaces/acme/webhook'
const INSECURE = { LARKWAY_INSECURE_WEBHOOKS: 'true' }
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const HASH = /^[0-9a-f]{64}$/

/** A job that was cancelled before it began. @returns its id */
async function endJob({ state }: ConsoleBench, workspace: string, kind: JobKind = 'transcription') {
  const spec = specOf(workspace, { kind })
  await state.jobs.submit({ spec, slot: null })
  await state.jobs.cancel(spec.id, spec, KEEP)
  return spec.id
}

/** Has the attempt that is next fail for good. */
async function giveUp({ state }: ConsoleBench, reason: string) {
  const [event] = await state.outbox.claim({ limit: 1, leaseMs: 60_000, perWorkspace: 16, perAiling: 4 })
  if (event === undefined) throw new Error('there is no event')
  await state.outbox.end(event, { state: 'given_up', reason, keepMs: 60_000 })
}

let bench: ConsoleBench

t.before(async () => {
  bench = await startConsoleBench(t)
})

t.test('a webhook is set, tried, and taken away', async (t) => {
  let behave: Behaviour = answering(204)
  const receiver = await startReceiver(t, (line, delivery) => behave(line, delivery), { names: null })
  const { visitors, larkway, keys } = await startConsoleBench(t, { env: INSECURE })
  const { admin, operator } = visitors
  t.same((await admin.get(HOOK)).body, { webhook: null })
  t.match(await admin.ask('POST', `${HOOK}/test`), {
    status: 404,
    body: { error: { code: 'NOT_FOUND', message: 'the workspace has no webhook' } },
  })

  const url = `http://127.0.0.1:${receiver.port}/hook?key=canary`
  const set = await admin.ask('PUT', HOOK, { url })
  t.match(set, { status: 200, body: { webhook: { url, created_at: TIME }, signing_secret: /^whsec_/ } })
  t.equal(set.headers.get('cache-control'), 'no-store')
  const { signing_secret: secret, webhook } = set.body
  t.same((await operator.get(HOOK)).body, { webhook })
  const authorization = `Bearer ${keys.admin}`
  const api = await fetch(`${larkway.url}/workspace/acme/stt-webhook`, { headers: { authorization } })
  t.same(await api.json(), webhook, 'the workspace API has the same')

  const tried = await admin.ask('POST', `${HOOK}/test`)
  t.match(tried, { status: 200, body: { ok: true, status: 204, reason: null } })
  t.ok(Number(tried.body.milliseconds) >= 0)
  const [delivery] = receiver.received
  t.match(delivery, { method: 'POST', path: '/hook?key=canary' })
  t.match(JSON.parse(delivery?.body ?? ''), { type: 'webhook.test', job_id: null })
  t.ok(delivery && isVerified(String(secret), delivery))
  behave = answering(503)
  t.match((await operator.ask('POST', `${HOOK}/test`)).body, { ok: false, status: 503, reason: 'status 503' })
  behave = (line) => line.reset()
  t.match((await admin.ask('POST', `${HOOK}/test`)).body, { ok: false, status: null, reason: /\w/ })

  let begun = () => {}
  const hasBegun = new Promise<void>((resolve) => {
    begun = resolve
  })
  let answer = () => {}
  behave = (line, delivery) => {
    answer = () => answering(204)(line, delivery)
    begun()
  }
  const slow = admin.ask('POST', `${HOOK}/test`)
  await hasBegun
  t.match(await operator.ask('POST', `${HOOK}/test`), {
    status: 429,
    body: { error: { code: 'RATE_LIMITED', message: 'a test of the webhook is under way already' } },
  })
  answer()
  t.match((await slow).body, { ok: true, status: 204 })

  const second = await admin.ask('PUT', HOOK, { url })
  t.not(second.body.signing_secret, secret, 'each has a secret of its own')
  behave = answering(200)
  await admin.ask('POST', `${HOOK}/test`)
  const newest = receiver.received.slice(-1)
  t.ok(newest[0] && isVerified(String(second.body.signing_secret), newest[0]))
  t.same(await forged(t, String(second.body.signing_secret), newest), [])

  t.same(await admin.ask('DELETE', HOOK).then(({ body }) => body), { webhook: null })
  t.same(await admin.ask('DELETE', HOOK).then(({ body }) => body), { webhook: null })
  t.same((await admin.get(HOOK)).body, { webhook: null })

  const { lines } = (await admin.get('audit')).body as {
    lines: readonly Readonly<Record<string, unknown>>[]
  }
  const actions = ['remove', 'test', 'set', 'test', 'test', 'test', 'test', 'set'].map(
    (action) => `webhook.${action}`,
  )
  t.same(
    lines.map(({ action }) => action),
    actions,
  )
  t.match(lines[0], { before: HASH, after: null, target: 'workspace/acme', by: { key_id: 'key_admin' } })
  t.match(lines[2], { before: lines[7]?.after, after: lines[0]?.before })
  t.match(lines[7], { before: null, detail: `to 127.0.0.1:${receiver.port}, with a new secret` })
  t.notMatch(JSON.stringify(lines), /canary|whsec_/, 'neither what opens the target nor a secret')
})

t.test('deliveries, and how one is made again', async (t) => {
  const { admin, foreign } = bench.visitors
  const gone = await endJob(bench, 'acme')
  await giveUp(bench, 'status 410')
  const waiting = await endJob(bench, 'acme')
  const theirs = await endJob(bench, 'other')
  const LIST = `${HOOK}/deliveries`
  t.match((await admin.get(LIST)).body, {
    deliveries: [
      { job_id: waiting, status: 'cancelled', attempts: 0, next_attempt_at: TIME, reason: null },
      { job_id: gone, occurred_at: TIME, attempts: 1, next_attempt_at: null, reason: 'status 410' },
    ],
  })
  t.equal(((await admin.get(LIST)).body.deliveries as unknown[]).length, 2)
  t.match((await foreign.get('workspaces/other/webhook/deliveries')).body, {
    deliveries: [{ job_id: theirs }],
  })

  t.same((await admin.ask('POST', `${LIST}/${gone}/redeliver`)).body, { redelivered: true })
  const again = ((await admin.get(LIST)).body.deliveries as { job_id: string }[]).find(
    ({ job_id }) => job_id === gone,
  )
  t.match(again, { attempts: 0, next_attempt_at: TIME })

  const unknown = await admin.ask('POST', `${LIST}/${newJobId('tj', 'acme')}/redeliver`)
  t.match(unknown, { status: 404, body: { error: { code: 'JOB_NOT_FOUND' } } })
  for (const id of [theirs, 'tj_1', newId('req'), 'a%2Fb', '%00'])
    t.equal(sameFor(await admin.ask('POST', `${LIST}/${id}/redeliver`)), sameFor(unknown), id)
  const queued = await endJob(bench, 'acme', 'queue')
  const running = specOf('acme', { kind: 'transcription' })
  await bench.state.jobs.submit({ spec: running, slot: null })
  for (const id of [queued, running.id])
    t.match(await admin.ask('POST', `${LIST}/${id}/redeliver`), {
      status: 400,
      body: { error: { code: 'INVALID_REQUEST' } },
    })
  t.match((await admin.get('audit')).body, {
    lines: [{ action: 'webhook.redeliver', target: `job/${gone}` }],
  })
  t.equal(((await admin.get('audit')).body.lines as unknown[]).length, 1)
})

t.test('URLs are judged as the workspace API judges them', async (t) => {
  const { visitors } = bench
  const lines = await auditAfter(visitors.admin)
  const urls = [
    '',
    'hooks',
    'ftp://a.example/',
    'http://a.example/',
    'https://127.0.0.1/',
    'https://10.0.0.1/',
  ]
  for (const url of urls)
    t.match(await visitors.admin.ask('PUT', HOOK, { url }), {
      status: 400,
      body: { error: { code: 'INVALID_REQUEST', param: 'url' } },
    })
  t.same((await visitors.admin.get(HOOK)).body, { webhook: null })
  t.same(await lines(), [])
})

t.test('what is done by the workspace API is on the list, too', async (t: Test) => {
  const { larkway, keys, visitors } = bench
  const after = await auditAfter(visitors.admin)
  const headers = { authorization: `Bearer ${keys.admin}`, 'content-type': 'application/json' }
  const path = `${larkway.url}/workspace/acme/stt-webhook`
  const body = JSON.stringify({ url: 'https://hooks.example.com/secret-path' })
  t.equal((await fetch(path, { method: 'PUT', headers, body })).status, 200)
  t.equal((await fetch(path, { method: 'DELETE', headers })).status, 200)
  t.equal((await fetch(path, { method: 'DELETE', headers })).status, 200)
  const by = { via: 'api', key_id: 'key_admin', name: 'key_admin' }
  const lines = await after()
  t.match(lines, [
    { action: 'webhook.remove', by, workspace: 'acme' },
    { action: 'webhook.set', by, detail: 'to hooks.example.com, with a new secret' },
  ])
  t.equal(lines.length, 2)
})
