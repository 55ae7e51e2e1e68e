import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { CommandFailure, UsageError } from '../../../src/cli/arguments.ts'
import type { CliContext } from '../../../src/cli/context.ts'
import { credits } from '../../../src/cli/credits.ts'
import { jobs } from '../../../src/cli/jobs.ts'
import { key } from '../../../src/cli/key.ts'
import { importFile } from '../../../src/cli/transfer.ts'
import { webhooks } from '../../../src/cli/webhooks.ts'
import type { AuditLine } from '../../../src/contracts/catalog-store.ts'
import { newId, newJobId } from '../../../src/contracts/ids.ts'
import type { JobSpec } from '../../../src/contracts/jobs.ts'
import { KEYS_MAX } from '../../../src/gateway/admin/keys.ts'
import { hashKey, makeKey } from '../../../src/gateway/catalog/key.ts'
import { type ConsoleBench, STORES, startConsoleBench } from '../../support/console-bench.ts'
import { KEEP, specOf } from '../../support/jobs-under-test.ts'
import { storedKey } from '../../support/stored-key.ts'
import { filledWav } from '../../support/wav.ts'
import { answering, startReceiver } from '../../support/webhook-receiver.ts'

// Every command through every door that offers it: the command line, the workspace API, the console, and the management
// API, which is the console's for keys. Each door works on a subject of its own; effect, refusal, audit line and
// message are the same.

const DOORS = ['cli', 'api', 'console', 'bearer'] as const
type Door = (typeof DOORS)[number]
/** As the audit list names them. */
const VIA = { cli: 'cli', api: 'api', console: 'console', bearer: 'api' } as const

/** The message of a refusal, with flags of the command line as the fields that they give; null: it was done. */
type Refusal = string | null

/** One command, with a way through each door that offers it. */
interface Row<Subject> {
  readonly name: string
  /** Makes what the command works on; a new one for each door. */
  readonly subject: (door: Door) => Promise<Subject> | Subject
  /** That of the console is gone through with a key as well. */
  readonly doors: { readonly [D in Exclude<Door, 'bearer'>]?: (subject: Subject) => Promise<Refusal> }
  /** Keys cannot give it. */
  readonly isOfPage?: true
  /** What the state has of the subject afterwards, without what tells two subjects apart. */
  readonly effect: (subject: Subject) => Promise<unknown>
  /** A message, where the command is refused. */
  readonly refused?: RegExp
  /** What the audit list has of it, without who and when; absent: no line. */
  readonly audited?: Partial<AuditLine>
}

const FIELDS: Readonly<Record<string, string>> = {
  '--id': '`grant_id`',
  '--usd': '`amount_usd`',
  '--app': '`app`',
  '--scopes': '`scopes`',
  '--expires': '`expires_at`',
}

interface Doors {
  readonly cli: (
    run: (args: string[], context: CliContext) => Promise<number>,
    ...args: string[]
  ) => Promise<Refusal>
  readonly api: (method: string, path: string, body?: unknown) => Promise<Refusal>
  /** By the operator's session, or with the operator's key. */
  readonly console: (method: string, path: string, body?: unknown) => Promise<Refusal>
}

/** Whether the console's API is asked with a key just now. */
const asking = { withKey: false }

/** The ways of a command through each of its doors. */
function waysOf<Subject>({ doors, isOfPage }: Pick<Row<Subject>, 'doors' | 'isOfPage'>) {
  return DOORS.flatMap((door) => {
    const through = doors[door === 'bearer' ? 'console' : door]
    if (through === undefined || (door === 'bearer' && isOfPage === true)) return []
    const go = async (subject: Subject): Promise<Refusal> => {
      asking.withKey = door === 'bearer'
      return through(subject)
    }
    return [{ door, through: go }]
  })
}

function doorsOf({ larkway, redis, keys, visitors }: ConsoleBench): Doors {
  const env = {
    LARKWAY_DATA: larkway.dataFolder,
    LARKWAY_CONFIG: join(larkway.dataFolder, 'larkway.yaml'),
    LARKWAY_INSECURE_WEBHOOKS: 'true',
    ...(redis === null ? {} : { REDIS_URL: redis.url }),
  }
  return {
    async cli(run, ...args) {
      try {
        const code = await run(args, { env, print: () => {} })
        return code === 0 ? null : `exit code ${code}`
      } catch (error) {
        if (!(error instanceof UsageError || error instanceof CommandFailure)) throw error
        // The names that there are follow behind a semicolon.
        const [sentence = ''] = error.message.split('; there ')
        return sentence.replace(/^--\S+/, (flag) => FIELDS[flag] ?? flag)
      }
    },
    async api(method, path, body) {
      const response = await fetch(`${larkway.url}${path}`, {
        method,
        headers: {
          authorization: `Bearer ${path.startsWith('/v1/') ? keys.app : keys.admin}`,
          'content-type': 'application/json',
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return messageIn(await response.json())
    },
    async console(method, path, body) {
      if (!asking.withKey) return messageIn((await visitors.operator.ask(method, path, body)).body)
      const response = await fetch(`${larkway.url}/v1/admin/${path}`, {
        method,
        headers: { authorization: `Bearer ${keys.operator}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return messageIn(await response.json())
    },
  }
}

function messageIn(body: unknown): Refusal {
  const { error, ...rest } = body as { error?: { message: string } | null }
  // The answer about a failed job has an error beside other fields, and is no refusal.
  return error === undefined || error === null || Object.keys(rest).length > 0 ? null : error.message
}

/** Drives one command through its doors, and compares what comes of it. */
async function compare<Subject>(t: Test, bench: ConsoleBench, row: Row<Subject>): Promise<void> {
  const { subject: make, effect, refused, audited } = row
  const seen: { door: Door; effect: unknown; refusal: Refusal; lines: unknown }[] = []
  for (const { door, through } of waysOf(row)) {
    const subject = await make(door)
    const before = await newestLine(bench)
    const refusal = await through(subject)
    const lines = (await bench.state.catalog.audit(null, null, 50)).filter(({ number }) => number > before)
    if (refused === undefined) t.equal(refusal, null, `${row.name}: ${door} does it`)
    else t.match(refusal, refused, `${row.name}: ${door} refuses it`)
    t.equal(
      lines.length,
      audited === undefined ? 0 : 1,
      `${row.name}: ${door} has its line on the audit list`,
    )
    if (audited !== undefined) t.match(lines[0], audited, `${row.name}: ${door} says what it did`)
    t.ok(
      lines.every(({ by }) => by.via === VIA[door]),
      `${row.name}: ${door} is named as the door`,
    )
    const said = lines.map(({ action, workspace, target, before: old, after, detail }) => {
      const isMade = /^(?:key|webhook)\./.test(action)
      return {
        action,
        workspace,
        target: target.replace(/\w{26}$/, 'ID'),
        // A key and a webhook have a moment and a secret of their own.
        hashes: isMade ? [old !== null, after !== null] : [old, after],
        detail: detail?.replace(/lk_live_\w+|grant_\w+|key_\w+/g, 'NAME') ?? null,
      }
    })
    seen.push({ door, effect: await effect(subject), refusal, lines: said })
  }
  const [first, ...others] = seen
  t.ok(others.length > 0, `${row.name}: there is more than one door`)
  for (const { door: _, ...other } of others) {
    const { door: _first, ...one } = first!
    t.same(other, one, `${row.name}: the doors agree`)
  }
}

async function newestLine({ state }: ConsoleBench): Promise<number> {
  const [line] = await state.catalog.audit(null, null, 1)
  return line?.number ?? 0
}

const HOOK = 'https://hooks.example.com/in'

for (const [store, options] of STORES) {
  t.test(`${store}: credits`, options, async (t) => {
    const bench = await startConsoleBench(t, { store })
    const { cli, console } = doorsOf(bench)
    const { accounts } = bench.state
    const micros = async (id: string) => {
      const { grants } = await accounts.show('other', { grant: null, trial: null, budgetMicros: null })
      return grants.find((grant) => grant.id === id)?.micros
    }
    const doorsWith = (usd: number) => ({
      cli: (id: string) => cli(credits, 'add', '--workspace', 'other', `--usd=${usd}`, '--id', id),
      console: (id: string) => console('POST', 'workspaces/other/credits', { amount_usd: usd, grant_id: id }),
    })
    const fresh = () => newId('grant')
    const granted = async () => {
      const id = newId('grant')
      await accounts.addCredits('other', { id, micros: 2_500_000 })
      return id
    }
    const line = { action: 'credits.add', workspace: 'other', target: 'workspace/other' }
    const rows: Row<string>[] = [
      {
        name: 'a new grant',
        subject: (door) => `grant_${door}`,
        doors: doorsWith(2.5),
        effect: micros,
        audited: line,
      },
      { name: 'the same grant again', subject: granted, doors: doorsWith(2.5), effect: micros },
      {
        name: 'the id of another amount',
        subject: granted,
        doors: doorsWith(3),
        effect: micros,
        refused: /^`grant_id` was granted before with another amount, 2\.50 USD$/,
      },
      {
        name: 'nothing',
        subject: fresh,
        doors: doorsWith(0),
        effect: micros,
        refused: /^`amount_usd` must be /,
      },
      {
        name: 'an id with spaces',
        subject: () => 'no spaces',
        doors: doorsWith(1),
        effect: micros,
        refused: /^`grant_id` must be 1 to 64 visible ASCII characters$/,
      },
    ]
    for (const row of rows) {
      // The id of a grant is in its hash: one that is made has no other to compare with.
      if (row.audited === undefined) await compare(t, bench, row)
      else await compareOnce(t, bench, row)
    }
  })

  t.test(`${store}: keys`, options, async (t) => {
    const bench = await startConsoleBench(t, { store })
    const { cli, console } = doorsOf(bench)
    const { keys } = bench.state
    const named = async (name: string) => {
      const found = (await keys.list()).find((one) => one.name === name)
      if (found === undefined) return null
      const { id, sha256, prefix, createdAtMs, name: _, revokedAtMs, ...rest } = found
      return { ...rest, revoked: revokedAtMs !== null }
    }
    const creating = (more: readonly string[], body: object, workspace = 'acme', app = 'web') => ({
      cli: (name: string) =>
        cli(key, 'create', '--workspace', workspace, '--app', app, '--name', name, ...more),
      console: (name: string) => console('POST', `workspaces/${workspace}/keys`, { name, app, ...body }),
    })
    let count = 0
    const name = () => `key ${count++}`
    await compare(t, bench, {
      name: 'a new key',
      subject: () => 'the same name',
      doors: creating(
        ['--scopes', 'jobs,admin', '--budget-usd', '2.5', '--expires', '2099-01-31T00:00:00Z'],
        { scopes: ['jobs', 'admin'], budget_usd_per_month: 2.5, expires_at: '2099-01-31T00:00:00Z' },
      ),
      effect: named,
      audited: { action: 'key.create', workspace: 'acme', target: /^key\/key_/ as unknown as string },
    })
    const refusals: readonly (readonly [string, readonly string[], object, string, RegExp])[] = [
      ['an unknown app', [], {}, 'nowhere', /^`app` must name an app of the workspace$/],
      [
        'a time that has passed',
        ['--expires', '2020-01-31T00:00:00Z'],
        { expires_at: '2020-01-31T00:00:00Z' },
        'web',
        /^`expires_at` must be in the future$/,
      ],
      [
        'no time at all',
        ['--expires', 'soon'],
        { expires_at: 'soon' },
        'web',
        /^`expires_at` must be a time such as /,
      ],
    ]
    for (const [what, args, body, app, refused] of refusals)
      await compare(t, bench, {
        name: what,
        subject: name,
        doors: creating(args, body, 'acme', app),
        effect: named,
        refused,
      })

    const revoking = {
      cli: (id: string) => cli(key, 'revoke', id),
      console: (id: string) => console('DELETE', `workspaces/acme/keys/${id}`),
    }
    const revoked = async (id: string) => {
      const found = (await keys.list()).find((one) => one.id === id)
      return found && found.revokedAtMs !== null
    }
    const made = async (more: object = {}) => {
      const stored = storedKey({ name: 'to revoke', ...more })
      await keys.create(stored)
      return stored.id
    }
    await compare(t, bench, {
      name: 'revoking a key',
      subject: () => made(),
      doors: revoking,
      effect: revoked,
      audited: { action: 'key.revoke', workspace: 'acme' },
    })
    await compare(t, bench, {
      name: 'revoking it again',
      subject: () => made({ revokedAtMs: 1 }),
      doors: revoking,
      effect: revoked,
    })
    await compare(t, bench, {
      name: 'revoking no key',
      subject: () => 'key_none',
      doors: revoking,
      effect: revoked,
      refused: /^there is no such key$/,
    })
    await compare(t, bench, {
      name: 'revoking a key of the file',
      subject: () => 'key_app',
      doors: revoking,
      effect: revoked,
      refused: /^the key is defined in the configuration file: remove it there$/,
    })
  })

  t.test(`${store}: a workspace has so many keys, through every door`, options, async (t) => {
    const bench = await startConsoleBench(t, { store })
    const { cli, console } = doorsOf(bench)
    const { keys } = bench.state
    for (let at = 0; at < KEYS_MAX; at += 500)
      await Promise.all(
        Array.from({ length: 500 }, () => keys.create(storedKey({ workspace: 'other', revokedAtMs: 1 }))),
      )
    const served = JSON.parse(await readFile(join(bench.larkway.dataFolder, 'larkway.yaml'), 'utf8'))
    served.workspaces.other.keys.push({ id: 'key_more', app: 'web', sha256: hashKey(makeKey()) })
    const file = join(bench.larkway.dataFolder, 'more.yaml')
    await writeFile(file, JSON.stringify(served))
    const refused = /^the workspace may have at most 5000 keys, revoked ones included$/
    const effect = async () => (await keys.list()).length
    const doors = {
      cli: () => cli(key, 'create', '--workspace', 'other', '--app', 'web'),
      console: () => console('POST', 'workspaces/other/keys', { name: 'more', app: 'web' }),
    }
    const row = { name: 'one more key', subject: () => null, effect, refused }
    await compare(t, bench, { ...row, doors })
    const page = () => console('POST', 'workspaces/other/playground-key', { app: 'web' })
    await compare(t, bench, {
      ...row,
      name: 'one more for the playground',
      doors: { ...doors, console: page },
      isOfPage: true,
    })
    const importing = { ...doors, cli: () => cli(importFile, file) }
    await compare(t, bench, { ...row, name: 'one more in a file', doors: importing })
    t.equal(await effect(), KEYS_MAX)
  })

  t.test(`${store}: audio-URL domains`, options, async (t) => {
    const bench = await startConsoleBench(t, { store })
    const { api, console } = doorsOf(bench)
    const { settings } = bench.state
    const effect = () => settings.audioUrlDomains('acme')
    const doorsWith = (domains: readonly string[]) => ({
      api: () => api('PUT', '/workspace/acme/audio-url-domains', { domains }),
      console: () => console('PUT', 'workspaces/acme/audio-url-domains', { domains }),
    })
    const subject = () => settings.putAudioUrlDomains('acme', ['before.example.com'])
    await compare(t, bench, {
      name: 'replacing the domains',
      subject,
      doors: doorsWith(['CDN.example.com', '*.media.example.com']),
      effect,
      audited: { action: 'audio-url-domains.replace', detail: 'cdn.example.com, *.media.example.com' },
    })
    await compare(t, bench, {
      name: 'removing all',
      subject,
      doors: doorsWith([]),
      effect,
      audited: { detail: 'none' },
    })
    const refused = /^`domains\[1\]` must be a host name, /
    await compare(t, bench, {
      name: 'an address',
      subject,
      doors: doorsWith(['a.example.com', '10.0.0.1']),
      effect,
      refused,
    })
    const many = Array.from({ length: 21 }, (_, at) => `a${at}.example.com`)
    await compare(t, bench, {
      name: 'too many',
      subject,
      doors: doorsWith(many),
      effect,
      refused: /^`domains` must have at most 20 items$/,
    })
  })

  t.test(`${store}: webhooks`, options, async (t) => {
    const bench = await startConsoleBench(t, { store, env: { LARKWAY_INSECURE_WEBHOOKS: 'true' } })
    const { cli, api, console } = doorsOf(bench)
    const { settings } = bench.state
    const effect = async () => (await settings.webhook('acme'))?.url ?? null
    const none = async () => void (await settings.removeWebhook('acme'))
    const setting = (url: string) => ({
      api: () => api('PUT', '/workspace/acme/stt-webhook', { url }),
      console: () => console('PUT', 'workspaces/acme/webhook', { url }),
    })
    const set = {
      action: 'webhook.set',
      workspace: 'acme',
      detail: 'to hooks.example.com, with a new secret',
    }
    await compare(t, bench, { name: 'a webhook', subject: none, doors: setting(HOOK), effect, audited: set })
    await compare(t, bench, {
      name: 'a webhook that is no URL',
      subject: none,
      doors: setting('hooks.example.com'),
      effect,
      refused: /^`url` must be an absolute https URL$/,
    })
    const put = async () => void (await setting(HOOK).api())
    const removing = {
      api: () => api('DELETE', '/workspace/acme/stt-webhook'),
      console: () => console('DELETE', 'workspaces/acme/webhook'),
    }
    await compare(t, bench, {
      name: 'removing it',
      subject: put,
      doors: removing,
      effect,
      audited: { action: 'webhook.remove' },
    })
    await compare(t, bench, { name: 'removing none', subject: none, doors: removing, effect })

    const testing = {
      cli: () => cli(webhooks, 'test', '--workspace', 'acme'),
      console: () => console('POST', 'workspaces/acme/webhook/test', {}),
    }
    await compare(t, bench, {
      name: 'testing none',
      subject: none,
      doors: testing,
      effect,
      refused: /^the workspace has no webhook$/,
    })
    const receiver = await startReceiver(t, answering(204), { names: null })
    await setting(`http://127.0.0.1:${receiver.port}/`).api()
    let received = 0
    const delivered = async () => {
      const found = receiver.received.slice(received).map(({ body }) => JSON.parse(body).type)
      received = receiver.received.length
      return found
    }
    await compare(t, bench, {
      name: 'a test',
      subject: () => {},
      doors: testing,
      effect: delivered,
      audited: { action: 'webhook.test' },
    })
    t.equal(received, 3, 'the receiver got one of each')
  })

  t.test(`${store}: jobs`, options, async (t) => {
    const bench = await startConsoleBench(t, { store })
    const { cli, api, console } = doorsOf(bench)
    const { state, larkway, keys } = bench
    const path = (id: string, action: string) => `workspaces/acme/jobs/${id}/${action}`
    const effect = async (id: string) => {
      const job = await state.jobs.get(id)
      if (job === null) return null
      const { status, cancelRequested, expiresAtMs, endedAtMs } = job
      const keptMs = expiresAtMs === null || endedAtMs === null ? null : expiresAtMs - endedAtMs
      return { status, cancelRequested, keptMs, files: await filesOf(larkway.dataFolder, id) }
    }
    const handIn = async () => {
      const form = new FormData()
      form.append('file', new Blob([new Uint8Array(filledWav(80_000))], { type: 'audio/wav' }), 'a.wav')
      const headers = { authorization: `Bearer ${keys.app}` }
      const answer = await fetch(`${larkway.url}/v1/transcription/jobs`, {
        method: 'POST',
        headers,
        body: form,
      })
      const { job_id: id } = (await answer.json()) as { job_id: string }
      t.equal((await filesOf(larkway.dataFolder, id)).length, 1, 'its audio is in the store')
      return id
    }
    const cancelling = {
      cli: (id: string) => cli(jobs, 'cancel', id),
      console: (id: string) => console('POST', path(id, 'cancel')),
    }
    await compare(t, bench, {
      name: 'cancelling a queued job',
      subject: handIn,
      doors: cancelling,
      effect: async (id) => {
        await untilGone(larkway.dataFolder, id)
        return effect(id)
      },
      audited: { action: 'job.cancel', workspace: 'acme', detail: 'it was queued' },
    })
    const byApp = await handIn()
    t.equal(await api('DELETE', `/v1/transcription/jobs/${byApp}`), null)
    await untilGone(larkway.dataFolder, byApp)
    t.match(await effect(byApp), { status: 'cancelled', files: [] }, 'the app itself gets the same')

    const submitted = async (over: Partial<JobSpec>) => {
      const spec = specOf('acme', over)
      await state.jobs.submit({ spec, slot: null })
      return spec.id
    }
    const ended = async (over: Partial<JobSpec>) => {
      const id = await submitted(over)
      const poison = { code: 'INTERNAL', message: '', param: null, details: {} } as const
      const claim = { limit: 9, perWorkspace: 9, leaseMs: 60_000, stalledMax: 3, poison, keep: KEEP }
      const taken = (await state.jobs.claim(claim)).find(({ job }) => job.id === id)
      const facts = {
        policy_version_id: 'pv_0123456789abcdef',
        lk_applied_purpose: null,
        lk_purpose_source: 'none',
      } as const
      await state.jobs.end(id, taken?.job.fence ?? 0, { state: 'failed', facts, error: poison }, KEEP)
      return id
    }
    const unknown = () => newJobId('qj', 'acme')
    const none = /^there is no such job$/
    await compare(t, bench, {
      name: 'cancelling one that has ended',
      subject: () => ended({ kind: 'queue' }),
      doors: cancelling,
      effect,
    })
    await compare(t, bench, {
      name: 'cancelling none',
      subject: unknown,
      doors: cancelling,
      effect,
      refused: none,
    })

    const retrying = {
      cli: (id: string) => cli(jobs, 'retry', id),
      console: (id: string) => console('POST', path(id, 'retry')),
    }
    await compare(t, bench, {
      name: 'retrying a dead job',
      subject: () => ended({ kind: 'queue' }),
      doors: retrying,
      effect,
      audited: { action: 'job.retry' },
    })
    await compare(t, bench, {
      name: 'retrying one that is queued',
      subject: () => submitted({ kind: 'queue' }),
      doors: retrying,
      effect,
      refused: /^the job is queued: only a failed job can be retried$/,
    })
    await compare(t, bench, {
      name: 'retrying a transcription',
      subject: () => ended({ kind: 'transcription' }),
      doors: retrying,
      effect,
      refused: /^a transcription job cannot be retried: /,
    })
    await compare(t, bench, {
      name: 'retrying none',
      subject: unknown,
      doors: retrying,
      effect,
      refused: none,
    })

    const announcing = {
      cli: (id: string) => cli(webhooks, 'redeliver', id),
      console: (id: string) => console('POST', `workspaces/acme/webhook/deliveries/${id}/redeliver`),
    }
    const announced = async (id: string) =>
      (await state.outbox.list('acme', 100))
        .filter(({ jobId }) => jobId === id)
        .map(({ status, attempts }) => ({ status, attempts }))
    await compare(t, bench, {
      name: 'announcing an end again',
      subject: () => ended({ kind: 'transcription' }),
      doors: announcing,
      effect: announced,
      audited: { action: 'webhook.redeliver' },
    })
    await compare(t, bench, {
      name: 'announcing one that runs',
      subject: () => submitted({ kind: 'transcription' }),
      doors: announcing,
      effect: announced,
      refused: /^the job has not ended: /,
    })
    await compare(t, bench, {
      name: 'announcing none',
      subject: () => newJobId('tj', 'acme'),
      doors: announcing,
      effect: announced,
      refused: none,
    })
  })

  t.test(`${store}: parts of the catalog`, options, async (t) => {
    const bench = await startConsoleBench(t, { store })
    const { cli, console } = doorsOf(bench)
    const record = (name: string) => ({ kind: 'app', workspace: 'acme', name }) as const
    const effect = async (name: string) =>
      (await bench.state.catalog.get(record(name)))?.published?.fields ?? null
    const importing = async (name: string, route: string) => {
      const file = join(bench.larkway.dataFolder, 'part.yaml')
      const acme = { apps: { [name]: { route } }, credits_usd: 10, grant_id: 'first' }
      const provider = {
        kind: 'openai-compatible',
        access: 'byok',
        workspace: 'acme',
        base_url: 'http://127.0.0.1:1/v1',
      }
      const entries = [{ provider: 'acme', model: 'm', capabilities: ['text', 'audio_input'] }]
      const document = {
        providers: { acme: provider },
        routes: { acme: { workspace: 'acme', entries } },
        workspaces: { acme },
      }
      await writeFile(file, JSON.stringify(document))
      return cli(importFile, file)
    }
    await compareOnce(t, bench, {
      name: 'an app',
      subject: (door) => `by-${door}`,
      doors: {
        cli: (name) => importing(name, 'acme'),
        console: (name) => console('PUT', `workspaces/acme/apps/${name}`, { route: 'acme' }),
      },
      effect,
      audited: { action: 'app.publish', workspace: 'acme' },
    })
  })
}

/** The same as `compare` where the line of the audit list names the subject. */
async function compareOnce(t: Test, bench: ConsoleBench, row: Row<string>): Promise<void> {
  const seen: { effect: unknown; line: unknown }[] = []
  for (const { door, through } of waysOf(row)) {
    const subject = await row.subject(door)
    const before = await newestLine(bench)
    t.equal(await through(subject), null, `${row.name}: ${door} does it`)
    const lines = (await bench.state.catalog.audit(null, null, 50)).filter(({ number }) => number > before)
    t.equal(lines.length, 1, `${row.name}: ${door} has one line on the audit list`)
    t.match(lines[0], { ...row.audited, by: { via: VIA[door] } }, `${row.name}: ${door} says what it did`)
    const { action, workspace, target = '' } = lines[0] ?? {}
    const line = { action, workspace, target: target.replace(subject, 'SUBJECT') }
    seen.push({ effect: await row.effect(subject), line })
  }
  t.ok(seen.length > 1, `${row.name}: there is more than one door`)
  for (const one of seen.slice(1)) t.same(one, seen[0], `${row.name}: the doors agree`)
}

/** Objects of a job's input in the folder store. */
async function filesOf(folder: string, id: string): Promise<string[]> {
  return (await readdir(join(folder, 'job'))).filter((name) => name.includes(id))
}

/** Objects are removed behind the answer. */
async function untilGone(folder: string, id: string): Promise<void> {
  const untilMs = performance.now() + 10_000
  while ((await filesOf(folder, id)).length > 0 && performance.now() < untilMs)
    await new Promise((resolve) => setTimeout(resolve, 20))
}
