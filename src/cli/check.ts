import type { ConfiguredProvider, Principal, Route } from '../contracts/catalog.ts'
import type { ServedCatalog } from '../contracts/catalog-service.ts'
import { errorMessage } from '../contracts/log.ts'
import type { ModelTable } from '../contracts/models.ts'
import { systemClock } from '../contracts/time.ts'
import type { Send } from '../contracts/upstream.ts'
import { type ListedModels, listModels } from '../gateway/call/select/list-models.ts'
import { TRIAL_AUDIO } from '../gateway/call/trial-call.ts'
import { openCatalog } from '../gateway/catalog/watch.ts'
import { findTranscoder } from '../gateway/long/transcoder.ts'
import { certificateFiles, dateRemark, isInForce, readCertificate } from '../gateway/node/certificate.ts'
import type { Environment } from '../gateway/node/config.ts'
import { createEgressProxy } from '../gateway/outbound/egress-proxy.ts'
import { createSender } from '../gateway/outbound/send.ts'
import { documentAge, endedModels, fadingModels, notesOn, SHIPPED } from '../gateway/providers/facts.ts'
import { PROVIDERS } from '../gateway/providers/index.ts'
import { BuiltInSandbox } from '../sandbox/thread.ts'
import { table as columns } from './arguments.ts'
import { environmentOf, secretOpener } from './context.ts'

type Print = (text: string) => void

export interface CheckOptions {
  readonly path: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Ask each configured provider for its models. */
  readonly providers: boolean
  /** Facts that it is judged by; default: the program's. */
  readonly models?: ModelTable | undefined
  readonly nowMs?: number
}

/**
 * Validates a configuration and shows what it amounts to, with the certificate of TLS where the environment names one.
 *
 * @returns the exit code: 1 when a model of an entry has ended, the certificate cannot serve, or a provider that was
 *          asked did not answer well
 * @throws CatalogError with every fault
 */
export async function check(
  { path, env, providers, models = SHIPPED, nowMs = systemClock.wallNow() }: CheckOptions,
  print: Print,
): Promise<number> {
  const { serving } = await openCatalog({
    path,
    kinds: PROVIDERS,
    models,
    env,
    open: await secretOpener(env),
  })
  const good = serving.good()
  const table = serving.models()
  const ended = endedModels(good.routes, table, nowMs)
  if (ended.length > 0) {
    const lines = ended.map(({ name, remark }) => `  ${name} ${remark}\n`)
    print(`${path} has entries whose models have ended, and calls to them fail:\n${lines.join('')}\n`)
  }
  print(`${path} ${ended.length > 0 ? 'amounts to this otherwise' : 'is valid'}.\n\n`)
  print(`${routeTable(good.routes)}\n${keyTable([...good.snapshot.keys.values()])}`)
  const live = liveRows(good.routes)
  if (live.length > 0) print(`\n${columns([['LIVE AUDIO', 'KEEPS'], ...live])}`)
  const warnings = [...fadingModels(good.routes, table, nowMs), ...notesOn(good.routes, table)]
  const remarks = warnings.map(({ name, remark }) => [name, remark])
  if (remarks.length > 0) print(`\n${columns([['MODEL', 'WHAT TO KNOW'], ...remarks])}`)
  for (const { name, transcodes } of good.routes)
    if (transcodes === true && findTranscoder(env.PATH) === null)
      print(`\nWarning: ${name} transcodes, and there is no ffmpeg here.\n`)
  const serves = await checkCertificate(env, nowMs, print)
  const answers = providers ? showAnswers(await askProviders(environmentOf({ env }), good), print) : 0
  const age = documentAge(table, nowMs)
  if (age !== null) print(`\nWarning: ${age}; \`larkway models update\` brings newer ones.\n`)
  return serves && ended.length === 0 ? answers : 1
}

/** @returns false when a node would not start with the certificate, or clients would refuse it */
async function checkCertificate(env: CheckOptions['env'], nowMs: number, print: Print): Promise<boolean> {
  if (!env.LARKWAY_TLS_CERT && !env.LARKWAY_TLS_KEY) return true
  try {
    const certificate = await readCertificate(certificateFiles(environmentOf({ env }))!)
    const until = new Date(certificate.notAfterMs).toISOString()
    const remark = dateRemark(certificate, nowMs)
    print(`\nThe TLS certificate and its key belong together. It is valid until ${until}.\n`)
    if (remark !== null) print(`Warning: ${remark}.\n`)
    return isInForce(certificate, nowMs)
  } catch (error) {
    print(`\n${errorMessage(error)}\n`)
    return false
  }
}

function routeTable(routes: readonly Route[]): string {
  const rows = routes.map(({ workspace, name, version, strategy, published, entries }) => [
    workspace,
    name,
    version,
    published ? strategy : 'unpublished',
    entries.map(({ provider, model }) => `${provider.name}/${model}`).join(', '),
  ])
  return columns([['WORKSPACE', 'ROUTE', 'VERSION', 'STRATEGY', 'ENTRIES'], ...rows])
}

/** Rows of the entries that transcribe live audio, each model once. */
function liveRows(routes: readonly Route[]): string[][] {
  const rows = new Map<string, string[]>()
  for (const { entries } of routes)
    for (const { provider, model, facts } of entries) {
      if (facts.live === undefined || PROVIDERS.get(provider.kind)?.live === undefined) continue
      const name = `${provider.name}/${model}`
      rows.set(name, [name, facts.live.features.join(', ') || 'the text alone'])
    }
  return [...rows.values()]
}

function keyTable(principals: readonly Principal[]): string {
  const rows = principals.map(({ workspace, app, key: { id, scopes, rateLimit, expiresAtMs }, route }) => [
    workspace.id,
    app.id,
    id,
    route.name,
    scopes.join(','),
    `${rateLimit.requestsPerMinute}/min, burst ${rateLimit.burst}`,
    expiresAtMs === null ? 'never' : new Date(expiresAtMs).toISOString(),
  ])
  return columns([['WORKSPACE', 'APP', 'KEY', 'ROUTE', 'SCOPES', 'RATE LIMIT', 'EXPIRES'], ...rows])
}

function showAnswers(asked: readonly AskedProvider[], print: Print): number {
  const rows = asked.map(({ provider, listed, trouble, unlisted }) => [
    provider.name,
    provider.kind,
    trouble ?? `answers, ${listed.length === 0 ? 'has no list of models' : `${listed.length} models`}`,
    unlisted.join(', '),
  ])
  print(`\n${columns([['PROVIDER', 'KIND', 'ANSWER', 'IN ROUTES, NOT IN ITS LIST'], ...rows])}`)
  print(
    'A list of models proves that the address and the credential are right, not that the credential may use them:\n' +
      'a key without the permission to speak passes here and fails on its first synthesis.\n',
  )
  return asked.some(({ trouble }) => trouble !== null) ? 1 : 0
}

/** Answer of a provider that was asked for its models. */
export interface AskedProvider extends ListedModels {
  readonly provider: ConfiguredProvider
  /** Models of the routes that its list lacks. */
  readonly unlisted: readonly string[]
}

/** Asks each provider for its models. */
export function askProviders(
  environment: Environment,
  { providers, routes }: Pick<ServedCatalog, 'providers' | 'routes'>,
): Promise<AskedProvider[]> {
  const ask = async (provider: ConfiguredProvider, send: Send): Promise<AskedProvider> => {
    const answer = await listModels(provider, PROVIDERS, send)
    return { provider, ...answer, unlisted: unlistedOf(provider, routes, answer.listed) }
  }
  return withProviders(environment, (send) => Promise.all(providers.map((provider) => ask(provider, send))))
}

/** Lends the means to ask providers, with the built-in sandbox among them. */
export async function withProviders<Result>(
  environment: Environment,
  work: (send: Send) => Promise<Result>,
): Promise<Result> {
  const sandbox = new BuiltInSandbox(() => {})
  const sender = createSender({ reader: TRIAL_AUDIO, inner: sandbox, egress: createEgressProxy(environment) })
  try {
    return await work(sender.send)
  } finally {
    await sender.close()
    await sandbox.close()
  }
}

/** Models of the routes that the provider's own list lacks. Lists leave out aliases, so this is only a hint. */
function unlistedOf(
  provider: ConfiguredProvider,
  routes: readonly Route[],
  listed: readonly string[],
): string[] {
  if (listed.length === 0) return []
  const used = routes
    .flatMap(({ entries }) => entries)
    .filter((entry) => entry.provider.name === provider.name)
  return [...new Set(used.map(({ model }) => model))].filter((model) => !listed.includes(model))
}
