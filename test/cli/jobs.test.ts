import t, { type Test } from 'tap'
import { CommandFailure, UsageError } from '../../src/cli/arguments.ts'
import { jobs } from '../../src/cli/jobs.ts'
import { newId, newJobId } from '../../src/contracts/ids.ts'
import type { Job, JobEnding, JobSpec } from '../../src/contracts/jobs.ts'
import type { State } from '../../src/contracts/state.ts'
import { audio, options } from '../support/call.ts'
import { type Bench, startRedisBench, startSqliteBench } from '../support/cli-state.ts'
import { withoutServers } from '../support/servers.ts'

const HOUR_MS = 3_600_000
const KEEP = { transcriptionMs: HOUR_MS, queueMs: HOUR_MS, deadMs: HOUR_MS }
const FACTS = {
  policy_version_id: 'pv_0123456789abcdef',
  lk_applied_purpose: null,
  lk_purpose_source: 'none',
}
const FAILED: JobEnding = {
  state: 'failed',
  facts: FACTS,
  error: {
    code: 'UPSTREAM_ERROR',
    message: 'every eligible provider failed',
    param: null,
    details: { attempts: [{ provider: 'first', status: 500 }] },
  },
}

const SECRETS = [
  'secret payload',
  'secret prompt',
  'secret result',
  'secret.mp3',
  'secret-signature',
  'secret term',
]

function specOf(over: Partial<JobSpec> = {}): JobSpec {
  const { kind = 'queue', workspace = 'acme' } = over
  return {
    id: newJobId(kind === 'queue' ? 'qj' : 'tj', workspace),
    kind,
    mode: 'priority',
    endpoint: kind === 'queue' ? 'speech' : 'transcription',
    workspace,
    app: 'web',
    keyId: 'key_web',
    keyBudgetMicros: null,
    requestId: 'req_given',
    traceparent: null,
    selectors: { purpose: null, responseProfile: null },
    warnings: [],
    work: { operation: 'speech', payload: { text: '{"input":"secret payload"}' } },
    eventId: kind === 'queue' ? null : newId('evt'),
    ...over,
  }
}

async function submitted({ jobs }: State, over: Partial<JobSpec> = {}): Promise<string> {
  const spec = specOf(over)
  await jobs.submit({ spec, slot: null })
  return spec.id
}

/** Takes a job up, which is the only one that is ready. */
async function claimed({ jobs }: State, id: string): Promise<Job> {
  const poison = { code: 'INTERNAL', message: '', param: null, details: {} } as const
  const taken = await jobs.claim({
    limit: 1,
    perWorkspace: 9,
    leaseMs: HOUR_MS,
    stalledMax: 3,
    poison,
    keep: KEEP,
  })
  const job = taken[0]?.job
  if (job?.id !== id) throw new Error(`${job?.id} was taken up`)
  return job
}

async function endedAs(state: State, over: Partial<JobSpec>, ending: JobEnding): Promise<string> {
  const id = await submitted(state, over)
  const { fence } = await claimed(state, id)
  await state.jobs.end(id, fence, ending, KEEP)
  return id
}

const SUCCEEDED: JobEnding = { state: 'succeeded', result: { text: 'secret result' }, facts: FACTS }

/** A command as in a process of its own; starting one for each would take most of the time. */
async function ran({ desk: { env } }: Bench, ...args: string[]) {
  const output: string[] = []
  try {
    const code = await jobs(args, { env, print: (text) => void output.push(text) })
    return { code, output: output.join(''), errors: '' }
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error
    return { code: 1, output: output.join(''), errors: error.message }
  }
}

async function listed(bench: Bench, ...flags: string[]): Promise<string[]> {
  const { code, output, errors } = await ran(bench, 'list', '--json', ...flags)
  if (code !== 0) throw new Error(errors)
  return JSON.parse(output).map(({ id }: { id: string }) => id)
}

const benches: readonly [string, (t: Test) => Promise<Bench>, { skip: string | false }][] = [
  ['SQLite', startSqliteBench, { skip: false }],
  ['Redis', startRedisBench, { skip: withoutServers }],
]

for (const [kind, start, skipping] of benches) {
  t.test(`${kind}: jobs are listed, newest first`, skipping, async (t) => {
    const bench = await start(t)
    const [dead, done, heard, foreign, waiting] = await bench.withState(async (state) => [
      await endedAs(state, {}, FAILED),
      await endedAs(state, { mode: 'bulk' }, SUCCEEDED),
      await endedAs(state, { kind: 'transcription' }, FAILED),
      await submitted(state, { workspace: 'other', app: 'mobile', endpoint: 'embed' }),
      await submitted(state, { mode: 'standard' }),
    ])
    t.same(new Set(await listed(bench)), new Set([dead, done, heard, foreign, waiting]))
    t.same(await listed(bench, '--workspace', 'other'), [foreign])
    t.same(await listed(bench, '--kind', 'transcription'), [heard])
    t.same(await listed(bench, '--status', 'succeeded'), [done])
    t.same(await listed(bench, '--dead'), [dead], 'only jobs of the queue are dead')
    t.equal((await listed(bench, '--limit', '2')).length, 2)

    const { code, output, errors } = await bench.run(['jobs', 'list', '--workspace', 'acme'])
    t.same({ code, errors }, { code: 0, errors: '' })
    const [head, ...lines] = output.trimEnd().split('\n')
    t.match(head, /^JOB +WORKSPACE +APP +ENDPOINT +MODE +STATUS +CREATED +ENDED +CLAIMS +ERROR$/)
    t.equal(lines.length, 4)
    t.match(
      lines.find((line) => line.startsWith(String(dead))),
      / acme +web +speech +priority +failed .* 1 +UPSTREAM_ERROR$/,
    )
    t.match(
      lines.find((line) => line.startsWith(String(waiting))),
      / standard +queued +2\S+Z +- +0 +-$/,
    )
    const asJson = JSON.parse((await ran(bench, 'list', '--dead', '--json')).output)
    t.match(asJson, [
      { id: dead, kind: 'queue', endpoint: 'speech', mode: 'priority', claims: 1, error: 'UPSTREAM_ERROR' },
    ])
  })

  t.test(`${kind}: a job is shown, but not what it is about`, skipping, async (t) => {
    const bench = await start(t)
    const heard = { ...options({ prompt: 'secret prompt', keyterms: ['secret term'] }) }
    const remote = { url: 'https://cdn.example.com/secret.mp3?secret-signature' }
    const ids = await bench.withState(async (state) => ({
      done: await endedAs(
        state,
        { selectors: { purpose: { label: 'calls', source: 'body' }, responseProfile: 'fast' } },
        SUCCEEDED,
      ),
      dead: await endedAs(state, {}, FAILED),
      audio: await submitted(state, {
        work: { operation: 'translation', options: heard, audio: audio({ filename: 'secret.mp3' }) },
      }),
      remote: await submitted(state, { work: { operation: 'transcription', options: heard, audio: remote } }),
    }))
    const shown: Record<string, { text: string; json: Record<string, unknown> }> = {}
    for (const [name, id] of Object.entries(ids)) {
      const text = await ran(bench, 'show', id)
      const json = await ran(bench, 'show', id, '--json')
      t.same([text.code, text.errors, json.code], [0, '', 0], name)
      for (const secret of SECRETS)
        t.notOk((text.output + json.output).includes(secret), `${name}: no ${secret}`)
      shown[name] = { text: text.output, json: JSON.parse(json.output) }
    }
    t.match(shown.done?.text, /^status +succeeded$/m)
    t.match(shown.done?.text, /^purpose +calls \(body\)$/m)
    t.match(shown.done?.text, /^input +speech, 26 bytes$/m)
    t.match(shown.done?.text, /^result +13 bytes$/m)
    t.match(
      shown.done?.text,
      /^history +2\S+Z {2}queued\n +2\S+Z {2}processing, claim 1\n +2\S+Z {2}succeeded, claim 1$/m,
    )
    t.match(shown.done?.json, {
      purpose: 'calls',
      response_profile: 'fast',
      result_bytes: 13,
      facts: FACTS,
      error: null,
    })
    t.match(shown.dead?.text, /^error +UPSTREAM_ERROR: every eligible provider failed$/m)
    t.match(shown.dead?.text, /^error details +\{"attempts":\[\{"provider":"first","status":500\}\]\}$/m)
    t.match(shown.dead?.json, { status: 'failed', claims: 1, error: { code: 'UPSTREAM_ERROR' } })
    t.match(shown.audio?.text, /^input +translation, wav of 10 s, 1000 bytes$/m)
    t.match(shown.remote?.text, /^input +transcription, audio at cdn.example.com$/m)
  })

  t.test(`${kind}: dead jobs are queued again, others not`, skipping, async (t) => {
    const bench = await start(t)
    const { dead, heard, waiting } = await bench.withState(async (state) => ({
      dead: await endedAs(state, {}, FAILED),
      heard: await endedAs(state, { kind: 'transcription' }, FAILED),
      waiting: await submitted(state),
    }))
    t.match(await ran(bench, 'retry', dead), { code: 0, output: `${dead} is queued again\n`, errors: '' })
    const job = await bench.withState((state) => state.jobs.get(dead))
    t.match(job, { status: 'queued', error: null, retries: 0 })
    for (const [id, why] of [
      [dead, /^the job is queued: only a failed job can be retried$/],
      [waiting, /^the job is queued: only a failed job can be retried$/],
      [heard, /^a transcription job cannot be retried: /],
      [newJobId('qj', 'acme'), /^there is no such job$/],
    ] as const) {
      t.match(await ran(bench, 'retry', id), { code: 1, output: '', errors: why })
    }
    const lines = await bench.withState(({ catalog }) => catalog.audit(null, null, 10))
    const by = { via: 'cli', keyId: null, name: 'larkway jobs retry' }
    t.match(lines, [{ action: 'job.retry', workspace: 'acme', target: `job/${dead}`, by }])
    t.equal(lines.length, 1, 'what was refused is not on the audit list')
  })

  t.test(`${kind}: jobs are cancelled for their owners`, skipping, async (t) => {
    const bench = await start(t)
    const { running, waiting, done } = await bench.withState(async (state) => {
      const done = await endedAs(state, {}, SUCCEEDED)
      const running = await submitted(state, { kind: 'transcription' })
      await claimed(state, running)
      return { done, running, waiting: await submitted(state, { workspace: 'other', app: 'mobile' }) }
    })
    const cancel = (id: string) => ran(bench, 'cancel', id)
    t.match(await cancel(waiting), { code: 0, output: `${waiting} is cancelled\n`, errors: '' })
    t.match(await cancel(waiting), { code: 0, output: `${waiting} has already ended as cancelled\n` })
    t.match(await cancel(running), {
      code: 0,
      output: /is processing, and is cancelled as soon as its worker can stop/,
    })
    t.match(await cancel(done), { code: 0, output: `${done} has already ended as succeeded\n` })
    t.match(await cancel(newJobId('tj', 'acme')), { code: 1, errors: /^there is no such job$/ })
    const jobs = await bench.withState(({ jobs }) =>
      Promise.all([running, waiting, done].map((id) => jobs.get(id))),
    )
    t.match(jobs, [
      { status: 'processing', cancelRequested: true },
      { status: 'cancelled' },
      { status: 'succeeded' },
    ])
    const [, cancelled] = jobs
    t.equal(
      (cancelled?.expiresAtMs ?? 0) - (cancelled?.endedAtMs ?? 0),
      24 * HOUR_MS,
      'kept as the servers keep it',
    )
    const lines = await bench.withState(({ catalog }) => catalog.audit(null, null, 10))
    t.match(lines, [
      { action: 'job.cancel', target: `job/${running}`, detail: 'it was processing' },
      { action: 'job.cancel', target: `job/${waiting}`, workspace: 'other', by: { via: 'cli' } },
    ])
    t.equal(lines.length, 2)
  })
}

t.test('refuses command lines that cannot be followed', async (t) => {
  const desk = { env: {}, print: () => {} }
  const lines: [string[], RegExp][] = [
    [[], /takes list, show, retry or cancel/],
    [['purge'], /takes list, show, retry or cancel/],
    [['list', '--kind', 'speech'], /--kind must be one of transcription, queue/],
    [['list', '--status', 'dead'], /--status must be one of queued, /],
    [['list', '--dead', '--status', 'failed'], /one or the other/],
    [['list', '--limit', '0'], /--limit must be a number above 0/],
    [['list', 'all'], /unexpected argument "all"/],
    [['show'], /takes the id of a job/],
    [['show', 'req_01kaf2'], /is not the id of a job/],
    [['retry', 'qj_1'], /is not the id of a job/],
    [['cancel', '--force'], /force/],
  ]
  for (const [args, message] of lines)
    await t.rejects(jobs(args, desk), { constructor: UsageError, message }, args.join(' '))
  let help = ''
  t.equal(
    await jobs(['--help'], {
      ...desk,
      print: (text) => {
        help += text
      },
    }),
    0,
  )
  t.match(help, /larkway jobs <action>/)
})

t.test('a broken configuration stops only what needs it', async (t) => {
  const bench = await startSqliteBench(t, 'routes: 1')
  const id = await bench.withState((state) => submitted(state))
  t.match(await ran(bench, 'cancel', id), {
    code: 1,
    errors: /the configuration is not valid: see larkway check/,
  })
  t.match(await ran(bench, 'show', id), { code: 0 })
})
