import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import type { Test } from 'tap'
import type { JobEnding } from '../../src/contracts/jobs.ts'
import type { State } from '../../src/contracts/state.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { createRedisState } from '../../src/gateway/state/redis/state.ts'
import { type Told, type Visitor, visit } from '../support/console-bench.ts'
import { requestRecord } from '../support/console-record.ts'
import { claimingOf, FACTS, KEEP, SUCCESS, specOf } from '../support/jobs-under-test.ts'
import { type Larkway, startLarkway } from '../support/larkway.ts'
import { startRedis } from '../support/redis-server.ts'
import { tempFolder } from '../support/scratch.ts'
import { emptyStateIn } from '../support/state-file.ts'

/** Stands in everything of the other workspaces that no attacker ever sends: found in an answer, it was given away. */
export const HIDDEN = 'xcanaryx'

/** A workspace that must stay to itself, with a file's parts and the console's. */
export const VICTIM = 'victimco'
/** Another, whose name begins like the attacker's and goes on behind a dot. */
export const NEIGHBOUR = 'acme.x'
export const ATTACKER = 'acme'

/** What is in the victim, by the name that a path has for it. Attackers know all of it. */
export interface Planted {
  readonly workspaces: readonly string[]
  readonly routes: readonly string[]
  readonly apps: readonly string[]
  readonly purposes: readonly string[]
  readonly providers: readonly string[]
  readonly keys: readonly string[]
  readonly jobs: readonly string[]
  readonly requests: readonly string[]
}

export interface TenancyBench {
  readonly larkway: Larkway
  readonly state: State
  readonly planted: Planted
  /** Keys of admins, each of the workspace that `attackerAt` says. */
  readonly attackers: readonly string[]
  readonly operator: Visitor
  readonly victim: Visitor
  readonly neighbour: Visitor
}

/** Changes are limited by workspace, so that it takes many to send many. */
const ATTACKERS = 80

/** The workspace of an attacker. Attacks are written down as those of the first one. */
export function attackerAt(index: number): string {
  return index === 0 ? ATTACKER : `${ATTACKER}${index}`
}

const log = pino({ level: 'silent' })

/** A server with two workspaces full of canaries, and one of attackers. Nobody takes up its jobs. */
export async function startTenancyBench(t: Test, store: 'embedded' | 'redis'): Promise<TenancyBench> {
  const attackers = Array.from({ length: ATTACKERS }, makeKey)
  const [operatorKey, victimKey, neighbourKey] = [makeKey(), makeKey(), makeKey()]
  const dataFolder = await tempFolder(t)
  const file = await emptyStateIn(dataFolder)
  const redis = store === 'redis' ? await startRedis(t) : null
  const larkway = await startLarkway(t, {
    config: configOf({ attackers, operatorKey, victimKey, neighbourKey }),
    dataFolder,
    env: { LARKWAY_JOBS: '0', ...(redis === null ? {} : { REDIS_URL: redis.url }) },
  })
  const state =
    redis === null ? await openEmbeddedState({ file, log }) : await createRedisState({ url: redis.url, log })
  t.teardown(() => state.close())
  const operator = await visit(larkway.url, operatorKey)
  const victim = await visit(larkway.url, victimKey)
  const neighbour = await visit(larkway.url, neighbourKey)
  const keys = [await plantParts(operator, victim, VICTIM), await plantParts(operator, neighbour, NEIGHBOUR)]
  const jobs = [await plantJobs(state, VICTIM), await plantJobs(state, NEIGHBOUR)].flat()
  const requests = [VICTIM, NEIGHBOUR].map((workspace) => `req_planted.${workspace}.00001`)
  await state.console.requests.add('planted', [
    requestRecord(VICTIM, { id: requests[0]!, atMs: Date.now(), route: HIDDEN, path: `/v1/${HIDDEN}` }),
    requestRecord(NEIGHBOUR, { id: requests[1]!, atMs: Date.now(), route: HIDDEN, path: `/v1/${HIDDEN}` }),
  ])
  const planted: Planted = {
    workspaces: [VICTIM, NEIGHBOUR],
    routes: ['fileroute-v', `${VICTIM}.vroute`, `${NEIGHBOUR}.vroute`],
    apps: ['fileapp-v', 'vapp'],
    purposes: ['filepurpose-v', 'vpurpose'],
    providers: ['fileprovider-v', `${VICTIM}.vprovider`, `${NEIGHBOUR}.vprovider`],
    keys: ['key_filevictim', ...keys],
    jobs,
    requests,
  }
  return { larkway, state, planted, attackers, operator, victim, neighbour }
}

/** @returns the id of a key that was made there */
async function plantParts(operator: Visitor, admin: Visitor, workspace: string): Promise<string> {
  const W = `workspaces/${workspace}`
  const provider = `${workspace}.vprovider`
  const entry = { provider, model: `${HIDDEN}-model`, capabilities: ['text', 'audio_input'] }
  const route = `${W}/routes/${workspace}.vroute`
  await done(
    operator.ask('PUT', `${W}/providers/${provider}`, {
      kind: 'openai-compatible',
      base_url: `http://127.0.0.1:1/${HIDDEN}/v1`,
      credential: `sk-${HIDDEN}-${randomBytes(8).toString('hex')}`,
    }),
  )
  for (const revision of [null, null]) {
    const weight = revision === null ? 2 : 3
    const draft = await done(
      admin.ask('PUT', `${route}/draft`, { fields: { entries: [{ ...entry, weight }] }, revision }),
    )
    await done(
      admin.ask('POST', `${route}/publish`, {
        revision: (draft.body.draft as { revision: number }).revision,
      }),
    )
  }
  await done(
    admin.ask('PUT', `${route}/draft`, {
      fields: { entries: [{ ...entry, profile: HIDDEN }] },
      revision: null,
    }),
  )
  for (const purpose of ['vpurpose', `${HIDDEN}-purpose`])
    await done(
      admin.ask('PUT', `${W}/purposes/${purpose}`, { description: `${HIDDEN} purpose`, enabled: true }),
    )
  for (const app of ['vapp', `${HIDDEN}-app`])
    await done(admin.ask('PUT', `${W}/apps/${app}`, { route: `${workspace}.vroute` }))
  await done(admin.ask('PUT', `${W}/audio-url-domains`, { domains: [`${HIDDEN}.example.net`] }))
  await done(admin.ask('PUT', `${W}/webhook`, { url: `https://hooks.example.org/${HIDDEN}` }))
  const key = await done(
    admin.ask('POST', `${W}/keys`, { name: `${HIDDEN} key`, app: 'vapp', scopes: ['jobs'] }),
  )
  return String(key.body.id)
}

async function done(asked: Promise<Told>): Promise<Told> {
  const told = await asked
  if (told.status >= 300) throw new Error(`planting: ${told.status} ${told.text}`)
  return told
}

const HIDDEN_FAILURE: JobEnding = {
  state: 'failed',
  error: { code: 'UPSTREAM_ERROR', message: `${HIDDEN} failed`, param: null, details: {} },
  facts: FACTS,
}

/** A job that failed, and one that is done and could not be announced. */
async function plantJobs({ jobs, outbox }: State, workspace: string): Promise<string[]> {
  const failed = specOf(workspace, { app: HIDDEN })
  const hearing = specOf(workspace, { kind: 'transcription', app: HIDDEN })
  for (const spec of [failed, hearing]) {
    await jobs.submit({ spec, slot: null })
    const [claimed] = await jobs.claim(claimingOf())
    if (claimed === undefined) throw new Error('no job is waiting')
    await jobs.end(spec.id, claimed.job.fence, spec === failed ? HIDDEN_FAILURE : SUCCESS, KEEP)
  }
  const [event] = await outbox.claim({ limit: 1, leaseMs: 60_000, perWorkspace: 16, perAiling: 4 })
  if (event === undefined) throw new Error('nothing is to be announced')
  await outbox.end(event, { state: 'given_up', reason: `${HIDDEN} does not answer`, keepMs: 3_600_000 })
  return [failed.id, hearing.id]
}

/** All that can be seen of a workspace, and what the state has of it. */
export async function sightOf(bench: TenancyBench, workspace: string, admin: Visitor): Promise<unknown> {
  const { state, operator, planted } = bench
  const W = `workspaces/${workspace}`
  const parts = ['', '/routes', '/models', '/providers', '/keys', '/audio-url-domains', '/webhook']
  const paths = [
    'workspaces',
    `audit?workspace=${workspace}`,
    ...[...parts, '/webhook/deliveries', '/jobs', '/requests?limit=200'].map((path) => W + path),
    ...planted.routes.flatMap((name) => [`${W}/routes/${name}`, `${W}/routes/${name}/versions`]),
    ...planted.jobs.map((id) => `${W}/jobs/${id}`),
    ...planted.requests.map((id) => `${W}/requests/${id}`),
  ]
  const seen: Record<string, unknown> = {}
  for (const [name, visitor] of Object.entries({ operator, admin }))
    for (const path of paths) {
      if (name === 'operator' && path === 'workspaces') continue
      const { status, text, headers } = await visitor.get(path)
      seen[`${name} ${path}`] = [status, text.replaceAll(headers.get('x-lk-request-id') ?? '-', 'ID')]
    }
  const { catalog, keys, settings, accounts } = state
  const terms = { grant: null, trial: null, budgetMicros: null }
  return {
    ...seen,
    records: await catalog.list(workspace),
    keys: (await keys.list()).filter((key) => key.workspace === workspace),
    webhook: await settings.webhook(workspace),
    domains: await settings.audioUrlDomains(workspace),
    shown: await settings.contentShown(workspace),
    account: await accounts.show(workspace, terms),
    jobs: await state.jobs.list({ workspace, kind: null, status: null, limit: 200 }),
  }
}

interface Keys {
  readonly attackers: readonly string[]
  readonly operatorKey: string
  readonly victimKey: string
  readonly neighbourKey: string
}

function configOf({ attackers, operatorKey, victimKey, neighbourKey }: Keys) {
  const own = { kind: 'openai-compatible', access: 'byok', base_url: `http://127.0.0.1:1/${HIDDEN}/v1` }
  const entry = (provider: string, model: string) => ({
    provider,
    model,
    capabilities: ['text', 'audio_input'],
  })
  const admin = (id: string, app: string, plain: string) => ({
    id,
    app,
    sha256: hashKey(plain),
    scopes: ['admin'],
  })
  const each = (make: (name: string, plain: string, index: number) => [string, object]) =>
    Object.fromEntries(attackers.map((plain, index) => make(attackerAt(index), plain, index)))
  return {
    rate_limit: { requests_per_minute: 600_000, burst: 10_000 },
    plans: { planned: { includes: ['audio_input'] } },
    providers: {
      house: {
        kind: 'openai-compatible',
        access: 'platform',
        base_url: 'http://127.0.0.1:1/v1',
        capabilities: ['audio_input'],
        price: { per_hour_usd: 1 },
      },
      ...each((name) => [`${name}-own`, { ...own, workspace: name, base_url: 'http://127.0.0.1:1/v1' }]),
      'fileprovider-v': { ...own, workspace: VICTIM },
      'fileprovider-n': { ...own, workspace: NEIGHBOUR },
    },
    routes: {
      ...each((name) => [`${name}-voice`, { workspace: name, entries: [entry(`${name}-own`, 'm')] }]),
      'ops-voice': { workspace: 'ops', entries: [{ provider: 'house', model: 'm' }] },
      'fileroute-v': { workspace: VICTIM, entries: [entry('fileprovider-v', `${HIDDEN}-model`)] },
      'fileroute-n': { workspace: NEIGHBOUR, entries: [entry('fileprovider-n', `${HIDDEN}-model`)] },
    },
    workspaces: {
      ops: {
        apps: { desk: { route: 'ops-voice' } },
        keys: [{ id: 'key_ops', app: 'desk', sha256: hashKey(operatorKey), scopes: ['operator'] }],
      },
      ...each((name, plain, index) => [
        name,
        {
          apps: { web: { route: `${name}-voice` } },
          purposes: { notes: { description: 'notes' } },
          keys: [admin(`key_attacker${index}`, 'web', plain)],
        },
      ]),
      [VICTIM]: {
        name: `${HIDDEN} incorporated`,
        credits_usd: 5,
        grant_id: HIDDEN,
        purposes: { 'filepurpose-v': { description: `${HIDDEN} of the file` } },
        apps: { 'fileapp-v': { route: 'fileroute-v' }, [`${HIDDEN}-file`]: { route: 'fileroute-v' } },
        keys: [{ ...admin('key_filevictim', 'fileapp-v', victimKey), name: `${HIDDEN} of the file` }],
      },
      [NEIGHBOUR]: {
        name: `${HIDDEN} next door`,
        apps: { 'fileapp-n': { route: 'fileroute-n' } },
        keys: [admin('key_fileneighbour', 'fileapp-n', neighbourKey)],
      },
    },
  }
}
