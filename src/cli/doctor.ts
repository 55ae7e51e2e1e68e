import { existsSync } from 'node:fs'
import { access, constants, statfs } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import type { Route } from '../contracts/catalog.ts'
import type { ServedCatalog } from '../contracts/catalog-service.ts'
import { type PublishedCatalog, recordId } from '../contracts/catalog-store.ts'
import { newId } from '../contracts/ids.ts'
import { createLogger, errorMessage } from '../contracts/log.ts'
import type { ModelsInForce, ModelTable } from '../contracts/models.ts'
import type { Objects } from '../contracts/objects.ts'
import type { State } from '../contracts/state.ts'
import { deadline, systemClock } from '../contracts/time.ts'
import type { Send } from '../contracts/upstream.ts'
import { makeTrial, planTrials, type Trial } from '../gateway/call/trial-call.ts'
import { CatalogError } from '../gateway/catalog/watch.ts'
import { findTranscoder } from '../gateway/long/transcoder.ts'
import { certificateFiles, dateRemark, isInForce, readCertificate } from '../gateway/node/certificate.ts'
import type { Environment } from '../gateway/node/config.ts'
import { awaitsMigration, openBucket, openObjects, openState, STATE_FILE } from '../gateway/node/stores.ts'
import { remarksOn } from '../gateway/node/surroundings.ts'
import { documentAge, endedModels, fadingModels } from '../gateway/providers/facts.ts'
import { PROVIDERS } from '../gateway/providers/index.ts'
import { json, parse, rfc3339, table, UsageError } from './arguments.ts'
import { type AskedProvider, askProviders, withProviders } from './check.ts'
import { type CliContext, configAt, environmentOf, modelsAt, openServed, secretOpener } from './context.ts'

const USAGE = `larkway doctor [--config FILE] [--call [--yes]] [--json]

Looks at everything that a node with this environment depends on, and says what is wrong: the configuration and its
models, the machine, the TLS certificate, Redis or the data folder, the object store and its signed URLs, the clocks,
every provider, and webhooks that cannot be delivered. Nothing is changed; one small object is written and deleted.

  --config FILE        default: LARKWAY_CONFIG, else larkway.yaml when it exists, else the demo
  --call               list the smallest real call of each entry, and what it costs: a second of audio, or one word
  --call --yes         make these calls at the providers, which bill them; no ledger and no budget counts them
  --json               print the findings as JSON

Exit code: 0 when there is no fault, 1 when there is one, 2 for a wrong command line. Warnings are no faults.
`

/** One thing that was looked at. `fault`: calls fail, or something is lost; `warning`: they may. */
export interface Finding {
  readonly grade: 'ok' | 'warning' | 'fault'
  readonly about: string
  /** A sentence, without a capital and a full stop. */
  readonly finding: string
}

type Found = Omit<Finding, 'about'>

const FLAGS = {
  help: { type: 'boolean' },
  config: { type: 'string' },
  call: { type: 'boolean' },
  yes: { type: 'boolean' },
  json: { type: 'boolean' },
} as const

/** `larkway doctor`. @returns the exit code @throws UsageError */
export async function doctor(args: readonly string[], context: CliContext): Promise<number> {
  const { values } = parse(args, FLAGS, 0)
  if (values.help === true) {
    context.print(USAGE)
    return 0
  }
  if (values.yes === true && values.call !== true) throw new UsageError('--yes goes with --call')
  const findings = await examine(context, values)
  const faults = findings.filter(({ grade }) => grade === 'fault').length
  const warnings = findings.filter(({ grade }) => grade === 'warning').length
  if (values.json === true) context.print(json(findings))
  else {
    context.print(table(findings.map(({ grade, about, finding }) => [grade, about, finding])))
    context.print(`\n${counted(faults, 'fault')}, ${counted(warnings, 'warning')}\n`)
  }
  return faults === 0 ? 0 : 1
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

interface Wanted {
  readonly config?: string | undefined
  readonly call?: boolean | undefined
  readonly yes?: boolean | undefined
}

async function examine(context: CliContext, { config, call, yes }: Wanted): Promise<Finding[]> {
  const path = configAt(context, config)
  let environment: Environment
  try {
    environment = environmentOf(context)
  } catch (error) {
    return [{ grade: 'fault', about: 'environment', finding: errorMessage(error) }]
  }
  const stored: Stored = {}
  const groups = await Promise.all([
    looked('machine', async () => machineFindings(environment)),
    looked('certificate', () => certificateFindings(environment)),
    looked(environment.REDIS_URL === undefined ? 'state' : 'Redis', () => stateFindings(environment, stored)),
    looked('object store', () => storeFindings(environment)),
    looked('node', () => nodeFindings(environment)),
  ])
  let served: ServedCatalog | null = null
  const configuration = await looked('configuration', async () => {
    const secrets = { env: context.env, open: await secretOpener(context.env) }
    const serving = await openServed(path, secrets, stored.models?.table)
    const { routes, snapshot } = serving.good()
    const has = `${counted(routes.length, 'route')}, ${counted(snapshot.keys.size, 'key')}`
    if (stored.published !== undefined) serving.offerPublished(stored.published)
    served = serving.good()
    return [
      ok(`${path ?? 'the demo'} is valid: ${has}`),
      ...serving
        .broken()
        .flatMap(({ record, issues }) =>
          issues.map((issue) => fault(`${recordId(record)} is not served: ${issue}`)),
        ),
      ...(stored.models?.refused
        ? [fault(`the stored facts of models are refused, since ${stored.models.refused}`)]
        : []),
      ...modelFindings(served.routes, serving.models(), context.env),
    ]
  })
  const others = served === null ? [] : await providerFindings(environment, served, { call, yes })
  return [...configuration, ...groups.flat(), ...others]
}

/** The parts of a configuration that are in the state, as far as they could be read. */
interface Stored {
  models?: ModelsInForce
  published?: PublishedCatalog
}

/** Names a look at one thing, and gives its findings; one that fails has found a fault. */
async function looked(about: string, look: () => Promise<readonly Found[]>): Promise<Finding[]> {
  const found = await look().catch((error: unknown) =>
    (error instanceof CatalogError ? error.issues : [errorReason(error)]).map(fault),
  )
  return found.map((one) => ({ ...one, about }))
}

function errorReason(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined
  return cause instanceof Error ? `${errorMessage(error)}: ${errorMessage(cause)}` : errorMessage(error)
}

const ok = (finding: string): Found => ({ grade: 'ok', finding })
const warning = (finding: string): Found => ({ grade: 'warning', finding })
const fault = (finding: string): Found => ({ grade: 'fault', finding })

function modelFindings(routes: readonly Route[], table: ModelTable, env: CliContext['env']): Found[] {
  const nowMs = systemClock.wallNow()
  const age = documentAge(table, nowMs)
  const transcodes = routes.some((route) => route.transcodes === true) && findTranscoder(env.PATH) === null
  const facts = ok(`the facts of models are of ${table.issuedAt}`)
  return [
    age === null ? facts : warning(`${age}; \`larkway models update\` brings newer ones`),
    ...endedModels(routes, table, nowMs).map(({ name, remark }) => fault(`${name} ${remark}`)),
    ...fadingModels(routes, table, nowMs).map(({ name, remark }) => warning(`${name} ${remark}`)),
    ...(transcodes ? [warning('a route transcodes, and there is no ffmpeg here: such audio gets 415')] : []),
  ]
}

const MIB = 1024 ** 2
/** Free space below which uploads of a node end in 503 soon. */
const SPACE_LEAST_MIB = 2_048

async function machineFindings(environment: Environment): Promise<Found[]> {
  const { LARKWAY_DATA: folder, LARKWAY_INSECURE_WEBHOOKS: insecure } = environment
  const remarks = remarksOn(environment)
  if (insecure) remarks.push('LARKWAY_INSECURE_WEBHOOKS lets callers have addresses in this network asked')
  const there = existing(resolve(folder))
  await access(there, constants.W_OK)
  const { bavail, bsize } = await statfs(there)
  const freeMib = Math.floor((bavail * bsize) / MIB)
  if (freeMib < SPACE_LEAST_MIB) remarks.push(`there is little space in ${folder}`)
  return [ok(`${folder} can be written, ${freeMib} MiB are free`), ...remarks.map(warning)]
}

async function certificateFindings(environment: Environment): Promise<Found[]> {
  const files = certificateFiles(environment)
  if (files === undefined) return []
  const certificate = await readCertificate(files)
  const nowMs = systemClock.wallNow()
  const remark = dateRemark(certificate, nowMs)
  const until = rfc3339(certificate.notAfterMs)
  if (remark === null) return [ok(`it belongs to its key, and is valid until ${until}`)]
  return [isInForce(certificate, nowMs) ? warning(remark) : fault(remark)]
}

/** The folder, or the one that it would be made in. */
function existing(folder: string): string {
  return existsSync(folder) ? folder : existing(dirname(folder))
}

/** Signatures for S3 are refused from 15 minutes on, tokens of sign-in from one. */
const SKEW_MAX_MS = 5_000
const EVENTS_MAX = 1_000

/** @param stored is filled */
async function stateFindings(environment: Environment, stored: Stored): Promise<Found[]> {
  const { REDIS_URL, LARKWAY_DATA: folder } = environment
  const file = join(folder, STATE_FILE)
  if (REDIS_URL === undefined && !existsSync(file))
    return [ok(`there is none in ${folder} yet: the first start makes it`)]
  if (REDIS_URL === undefined && (await awaitsMigration(file).catch(() => false)))
    return [ok(`an earlier version has written it: the first start of this one migrates ${file}`)]
  const said: string[] = []
  // The same words as a node that starts logs.
  const log = createLogger('warn', {
    write(line) {
      const { msg, reason } = JSON.parse(line) as { readonly msg: string; readonly reason?: string }
      said.push(reason === undefined ? msg : `${msg}: ${reason}`)
    },
  })
  const state = await openState(environment, log)
  try {
    if (!(await state.healthy())) return [fault(said.join('; ') || unwell(state.blocked()))]
    stored.models = await modelsAt(environment, state.catalog)
    stored.published = await state.catalog.published()
    return await askedState(state, said)
  } finally {
    await state.close()
  }
}

/** @param said by it as it was opened */
async function askedState(state: State, said: readonly string[]): Promise<Found[]> {
  const startMs = systemClock.now()
  const clockMs = await state.clockMs()
  const tookMs = systemClock.now() - startMs
  await state.memory?.watch(null)
  const waiting = (await state.outbox.list(null, EVENTS_MAX)).filter(({ reason }) => reason !== null)
  const given = waiting.filter(({ nextAttemptAtMs }) => nextAttemptAtMs === null).length
  const again = waiting.length - given
  const found = [ok(state.kind === 'redis' ? `it answers after ${tookMs.toFixed(1)} ms` : 'its file answers')]
  if (state.memory?.isLost === true)
    found.push(fault('it has lost what it held; `larkway state accept-loss` goes on with it as it is'))
  if (given > 0) found.push(warning(`${counted(given, 'webhook event')} given up; see larkway webhooks list`))
  if (again > 0)
    found.push(
      warning(`${counted(again, 'webhook event')} failed and tried again; see larkway webhooks list`),
    )
  return [...found, ...skewOf(clockMs, tookMs), ...said.map(warning)]
}

function unwell(blocked: string | null): string {
  if (blocked === 'disk_full') return 'its disk is full'
  return blocked === null ? 'it does not answer' : 'its disk cannot be written'
}

function skewOf(clockMs: number | null, tookMs: number): Found[] {
  if (clockMs === null) return []
  const skewMs = Math.round(clockMs - systemClock.wallNow() + tookMs / 2)
  if (Math.abs(skewMs) <= SKEW_MAX_MS)
    return [ok(`its clock differs from this one by ${Math.abs(skewMs)} ms`)]
  const seconds = Math.round(Math.abs(skewMs) / 1_000)
  return [fault(`its clock is ${seconds} s ${skewMs > 0 ? 'ahead of' : 'behind'} this one: set both by NTP`)]
}

const PROBE_BYTES = 64 * 1024
const STORE_MS = 15_000
/** Enough for a store's HTTP clock, which counts whole seconds. */
const DATE_MS = 1_000

/** Writes an object, reads it back whole and by its signed URL, begins an upload in parts, and removes all of it. */
async function storeFindings(environment: Environment): Promise<Found[]> {
  const bucket = environment.S3_BUCKET === undefined ? null : await openBucket(environment, systemClock)
  if (bucket === null && !existsSync(environment.LARKWAY_DATA)) return []
  const objects = bucket?.objects ?? (await openObjects(environment))
  const key = `spool/doctor/${newId('req')}/0`
  const bytes = Buffer.alloc(PROBE_BYTES, 'larkway')
  const { signal } = new AbortController()
  const found: Found[] = []
  try {
    const startMs = systemClock.now()
    await objects.put(key, Readable.from([bytes]), bytes.length, { signal })
    const putMs = systemClock.now() - startMs
    found.push(await readBack(objects, key, bytes, signal))
    found.push(ok(`64 KiB are written after ${putMs.toFixed(0)} ms`))
    if (bucket === null) return found
    const upload = await objects.upload(`${key}-parts`, { signal })
    await upload.part([bytes], signal)
    await upload.abort()
    found.push(ok('it takes uploads in parts, and gives them up'))
    const object = { key, bytes: bytes.length, mediaType: 'application/octet-stream' }
    const url = await bucket.links.sign(object, systemClock.wallNow() / 1_000 + 60)
    found.push(...(await openedUrl(url, bytes, environment)))
    return found
  } finally {
    await objects.remove(key).catch(() => {})
    await objects.close()
  }
}

async function readBack(objects: Objects, key: string, bytes: Buffer, signal: AbortSignal): Promise<Found> {
  const chunks: Buffer[] = []
  for await (const chunk of await objects.get(key, 0, bytes.length, signal)) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks).equals(bytes)
    ? ok('what it gives back is what was written')
    : fault('it gives back other bytes than were written')
}

async function openedUrl(url: string, bytes: Buffer, environment: Environment): Promise<Found[]> {
  const { S3_PUBLIC_ENDPOINT: outside } = environment
  const where = new URL(url).origin
  const from = systemClock.wallNow()
  const response = await fetch(url, { signal: deadline(systemClock, STORE_MS) }).catch(errorReason)
  if (typeof response === 'string')
    return [fault(`signed URLs of ${where} cannot be opened here: ${response}`)]
  const opened = response.ok && Buffer.from(await response.arrayBuffer()).equals(bytes)
  const date = Date.parse(response.headers.get('date') ?? '')
  return [
    opened
      ? ok(`a signed URL of ${where} opens`)
      : fault(
          `a signed URL of ${where} answers ${response.status}: results and jobs cannot be fetched by it`,
        ),
    ...(outside === undefined
      ? [
          warning(
            'S3_PUBLIC_ENDPOINT is not set: no provider is handed a URL, and results are at S3_ENDPOINT',
          ),
        ]
      : []),
    ...(Number.isNaN(date) ? [] : skewOf(date + DATE_MS / 2, systemClock.wallNow() - from)),
  ]
}

const NODE_MS = 5_000

/** Asks the node that may run here. */
async function nodeFindings({ PORT, HOST }: Environment): Promise<Found[]> {
  if (PORT === 0) return []
  const host = HOST === '0.0.0.0' || HOST === '::' ? '127.0.0.1' : HOST
  const address = `${host}:${PORT}`
  const response = await fetch(`http://${address}/readyz`, { signal: deadline(systemClock, NODE_MS) }).catch(
    () => null,
  )
  if (response === null) return [ok(`none answers at ${address}`)]
  await response.arrayBuffer()
  return [
    response.ok
      ? ok(`the one at ${address} takes calls`)
      : fault(`the one at ${address} answers /readyz with ${response.status}: it takes no calls`),
  ]
}

/** Why no connection to a provider comes about, as the system says it: its name, its port or its certificate. */
async function reasonsOf(asked: readonly AskedProvider[]): Promise<Map<string, string>> {
  const reasons = new Map<string, string>()
  await Promise.all(
    asked.map(async ({ provider: { name, baseUrl }, trouble }) => {
      if (trouble === null) return
      const { origin } = new URL(baseUrl)
      const answer = await fetch(origin, { method: 'HEAD', signal: deadline(systemClock, NODE_MS) }).catch(
        errorReason,
      )
      if (typeof answer === 'string') reasons.set(name, `no connection to ${origin}: ${answer}`)
    }),
  )
  return reasons
}

async function providerFindings(
  environment: Environment,
  { providers, routes }: ServedCatalog,
  { call, yes }: Wanted,
): Promise<Finding[]> {
  const unused = providers.filter(
    ({ name }) => !routes.some(({ entries }) => entries.some(({ provider }) => provider.name === name)),
  )
  const asked = await askProviders(environment, { providers, routes })
  // The trouble itself has the answer of a proxy.
  const unreached = await reasonsOf(environment.HTTPS_PROXY === undefined ? asked : [])
  const findings = asked.map(({ provider, listed, trouble, unlisted }): Finding => {
    const about = `provider ${provider.name}`
    if (trouble !== null) return { about, ...fault(unreached.get(provider.name) ?? trouble) }
    const models = listed.length === 0 ? 'it has no list of models' : `${listed.length} models`
    if (unlisted.length === 0) return { about, ...ok(`it answers, ${models}`) }
    return { about, ...warning(`its list of ${models} lacks ${unlisted.join(', ')}`) }
  })
  findings.push(...unused.map(({ name }) => ({ about: `provider ${name}`, ...warning('no route has it') })))
  if (call !== true) return findings
  const trials = planTrials(routes, PROVIDERS)
  if (yes !== true) return [...findings, ...trials.map((trial) => entryFinding(trial, foreseen(trial)))]
  await withProviders(environment, async (send) => {
    // One after the other, so that none runs into the limits of its account.
    for (const trial of trials) findings.push(entryFinding(trial, await tried(trial, send)))
  })
  return findings
}

function entryFinding({ entry }: Trial, found: Found): Finding {
  return { about: `entry ${entry.provider.name}/${entry.model}`, ...found }
}

function foreseen({ call, what, costUsd }: Trial): Found {
  if (call === null) return ok(`is not tried: it makes ${what}`)
  return ok(
    `${what} would cost ${costUsd === null ? 'an unknown amount' : `$${costUsd}`}; --yes makes the call`,
  )
}

async function tried(trial: Trial, send: Send): Promise<Found> {
  const { call, what } = trial
  if (call === null) return foreseen(trial)
  const ended = await makeTrial({ ...trial, call }, PROVIDERS, send)
  if ('milliseconds' in ended) return ok(`${what}: answered after ${ended.milliseconds} ms`)
  const { status, reason, providerMessage } = ended.failure
  const words = providerMessage === null ? '' : `, "${providerMessage}"`
  return fault(`${what}: ${status === null ? '' : `${status}, `}${reason}${words}`)
}
