import { AUDIO_FORMATS } from '../contracts/audio.ts'
import { FEATURES, HINTS } from '../contracts/calls.ts'
import { PROFILES, type Principal, type Snapshot } from '../contracts/catalog.ts'
import { OPERATION_NAMES } from '../contracts/operations.ts'
import type { Sample } from '../contracts/sample.ts'
import { PLAIN_SAMPLE, sampleCall } from '../gateway/call/select/sample.ts'
import { select } from '../gateway/call/select/selection.ts'
import { explainRows } from '../gateway/call/select/verdict.ts'
import { diffRoutes, type RouteChange } from '../gateway/catalog/diff.ts'
import { hashKey, looksLikeKey } from '../gateway/catalog/key.ts'
import { PROVIDERS } from '../gateway/providers/index.ts'
import { json, number, oneOf, parse, required, table, UsageError, whole } from './arguments.ts'
import { EXIT_HELP, readWithoutSecrets } from './context.ts'

const USAGE = `larkway route explain --key K --endpoint E [options]

Tells which entries of a route would serve a request, in which order, and why the others would not.

  --key K              id of a key (key_web), or the key itself
  --endpoint E         ${OPERATION_NAMES.join(', ')}
  --config FILE        default: LARKWAY_CONFIG, else larkway.yaml
  --purpose LABEL      --profile P (${PROFILES.join(', ')})
  --feature F          required feature, repeatable: ${FEATURES.join(', ')}
  --hint H             hint, repeatable: ${HINTS.join(', ')}
  --language CODE      --audio-format F (${AUDIO_FORMATS.join(', ')})   --bytes N   --seconds N   --channels N
  --characters N       of text   --voice V   --speed N   --response-format F
  --images             the chat has pictures   --tools   --spoken (modalities: audio)
  --size WxH           --duration SECONDS   --count N   --dimensions N
  --json               print JSON

${EXIT_HELP} A request that would be refused gives 1.
`

/** Longest text of a sample; it is really made. */
const CHARACTERS_MAX = 10_000_000
const COUNT_MAX = 100_000

const text = { type: 'string' } as const
const list = { type: 'string', multiple: true } as const
const flag = { type: 'boolean' } as const
const FLAGS = {
  key: text,
  endpoint: text,
  config: text,
  purpose: text,
  profile: text,
  feature: list,
  hint: list,
  language: text,
  'audio-format': text,
  bytes: text,
  seconds: text,
  channels: text,
  characters: text,
  voice: text,
  speed: text,
  'response-format': text,
  images: flag,
  tools: flag,
  spoken: flag,
  size: text,
  duration: text,
  count: text,
  dimensions: text,
  json: flag,
  help: flag,
} as const

/**
 * `larkway route explain`: tells which entries would serve a request like the one described, in which order, and why
 * the others would not. Chance is left out (heavier entries go before lighter ones) and every entry counts as healthy,
 * since both belong to a running node.
 *
 * @returns the exit code: 1 when the request would be refused
 * @throws UsageError, CatalogError
 */
export async function explainRoute(
  args: readonly string[],
  defaultConfig: string,
  print: (text: string) => void,
): Promise<number> {
  const { values } = parse(args, FLAGS, 0)
  if (values.help === true) {
    print(USAGE)
    return 0
  }
  const operation = oneOf('endpoint', required('route explain', 'endpoint', values.endpoint), OPERATION_NAMES)
  const call = sampleCall(operation, readSample(values))
  const key = required('route explain', 'key', values.key)
  const { snapshot } = await readWithoutSecrets(values.config ?? defaultConfig)
  const principal = findPrincipal(snapshot, key)
  const { considered, refusal } = select({
    principal,
    call,
    providers: PROVIDERS,
    random: () => 0.5,
    latency: { medianMs: () => 0 },
    health: { view: () => ({ state: 'closed', untilMs: null, openedAtMs: null }) },
    nowMs: 0,
  })
  const rows = explainRows(considered)
  const answer = refusal === null ? null : { code: refusal.code, message: refusal.message }
  print(values.json === true ? json({ refusal: answer, entries: rows }) : rendered(rows, answer))
  return refusal === null ? 0 : 1
}

function rendered(
  rows: ReturnType<typeof explainRows>,
  refusal: { code: string; message: string } | null,
): string {
  const cells = rows.map(({ route, provider, model, group, rank, left, detail }) => [
    rank === null ? '-' : String(rank),
    `${provider}/${model}`,
    route,
    group,
    left === null ? 'taken' : detail === null ? left : `${left}: ${detail}`,
  ])
  const head = refusal === null ? '' : `refused: ${refusal.code}, ${refusal.message}\n\n`
  return head + table([['RANK', 'ENTRY', 'ROUTE', 'GROUP', 'WHY'], ...cells])
}

function findPrincipal({ keys }: Snapshot, given: string): Principal {
  const byId = () => [...keys.values()].find(({ key }) => key.id === given)
  const found = looksLikeKey(given) ? keys.get(hashKey(given)) : byId()
  if (found === undefined) throw new UsageError('the configuration has no such key')
  return found
}

type Values = ReturnType<typeof parse<typeof FLAGS>>['values']

function readSample(values: Values): Sample {
  const plain = PLAIN_SAMPLE
  const { audio } = plain
  return {
    purpose: values.purpose ?? null,
    responseProfile: values.profile === undefined ? null : oneOf('profile', values.profile, PROFILES),
    features: (values.feature ?? []).map((name) => oneOf('feature', name, FEATURES)),
    hints: (values.hint ?? []).map((name) => oneOf('hint', name, HINTS)),
    language: values.language ?? null,
    audio: {
      format:
        values['audio-format'] === undefined
          ? audio.format
          : oneOf('audio-format', values['audio-format'], AUDIO_FORMATS),
      bytes: whole('bytes', values.bytes) ?? audio.bytes,
      seconds: number('seconds', values.seconds) ?? audio.seconds,
      channels: whole('channels', values.channels) ?? audio.channels,
    },
    characters: whole('characters', values.characters, CHARACTERS_MAX) ?? plain.characters,
    voice: values.voice ?? null,
    speed: number('speed', values.speed),
    responseFormat: values['response-format'] ?? null,
    images: values.images === true,
    tools: values.tools === true,
    spoken: values.spoken === true,
    size: values.size ?? null,
    durationSeconds: number('duration', values.duration),
    count: whole('count', values.count, COUNT_MAX) ?? plain.count,
    dimensions: whole('dimensions', values.dimensions),
  }
}

/**
 * `larkway route diff OLD NEW`: a paragraph for each route that differs.
 *
 * @returns the exit code, 0 whether or not there are differences
 * @throws UsageError, CatalogError
 */
export async function diffFiles(args: readonly string[], print: (text: string) => void): Promise<number> {
  const [before, after] = parse(args, {}, 2).positionals
  if (before === undefined || after === undefined)
    throw new UsageError('route diff takes two configuration files')
  const [old, now] = [await readWithoutSecrets(before), await readWithoutSecrets(after)]
  const changes = diffRoutes(old.routes, now.routes)
  print(changes.length === 0 ? 'The routes are the same.\n' : changes.map(paragraph).join('\n'))
  return 0
}

function paragraph({ workspace, name, before, after, lines }: RouteChange): string {
  const versions = before === after ? `${after}, as before` : `${before ?? 'new'} → ${after ?? 'removed'}`
  return [`${workspace}/${name}  ${versions}`, ...lines.map((line) => `  ${line}`), ''].join('\n')
}
