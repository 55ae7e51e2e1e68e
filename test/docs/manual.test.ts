import { readFile, writeFile } from 'node:fs/promises'
import t from 'tap'
import { type TSchema, Type } from 'typebox'
import { CAPABILITIES, FEATURES, HINTS } from '../../src/contracts/calls.ts'
import { ERRORS } from '../../src/contracts/errors.ts'
import { FACT_SHAPES } from '../../src/contracts/facts.ts'
import { OPERATION_NAMES } from '../../src/contracts/operations.ts'
import { LIST_OPTIONS } from '../../src/gateway/api/assemblyai/list.ts'
import { TRANSCRIPT_OPTIONS } from '../../src/gateway/api/assemblyai/transcript-options.ts'
import { LISTEN_OPTIONS } from '../../src/gateway/api/deepgram/file-options.ts'
import { SPEAK_OPTIONS } from '../../src/gateway/api/deepgram/speak.ts'
import type { DoorOptions } from '../../src/gateway/api/door-options.ts'
import { SCRIBE_OPTIONS } from '../../src/gateway/api/elevenlabs/scribe-options.ts'
import { SPEECH_OPTIONS, SPEECH_QUERY } from '../../src/gateway/api/elevenlabs/text-to-speech.ts'
import type { ResultLinks } from '../../src/gateway/api/native/results.ts'
import { PROMPT_LENGTH_MAX } from '../../src/gateway/api/native/transcription-request.ts'
import { type ApiContext, createRoutes, ENDPOINTS } from '../../src/gateway/api/table.ts'
import { openDemo } from '../../src/gateway/catalog/demo.ts'
import {
  AppShape,
  CatalogFile,
  EntryShape,
  KeyShape,
  PlanShape,
  ProviderShape,
  RouteShape,
  WorkspaceShape,
} from '../../src/gateway/catalog/file.ts'
import { makeKey } from '../../src/gateway/catalog/key.ts'
import { MAX_ENVELOPE_BYTES } from '../../src/gateway/edge/queue-body.ts'
import { ENVIRONMENT_SCHEMA } from '../../src/gateway/node/config.ts'
import { SHIPPED } from '../../src/gateway/providers/facts.ts'
import { PROVIDERS } from '../../src/gateway/providers/index.ts'
import { codeWords, MANUAL, section } from '../support/manual.ts'

/** Writes the table of endpoints anew, for whoever has changed an endpoint. */
const WRITES_EXAMPLES = process.env.LARKWAY_TEST_WRITE_EXAMPLES === '1'

const MANUAL_TEXT = MANUAL.map(({ text }) => text).join('\n')

t.test('the README stays short: what is looked up is in docs/', async (t) => {
  const [readme] = MANUAL
  t.equal(readme?.path, 'README.md')
  t.ok((readme?.text.split('\n').length ?? 0) <= 200)
})

t.test('every variable is documented as it is, and none is stale', async (t) => {
  const rows = [...MANUAL_TEXT.matchAll(/^\| `([A-Z0-9_]+)` \| (?:`([^`]*)`)? ?\| (.*) \|$/gm)].map(
    ([, ...cells]) => cells,
  )
  const expected = Object.entries(ENVIRONMENT_SCHEMA.properties).map(([name, schema]) => {
    const { default: value, description, minimum, maximum } = { ...schema } as Record<string, unknown>
    const range = minimum === undefined ? '' : ` (${minimum} to ${maximum})`
    return [name, value === undefined ? undefined : String(value), `${description}${range}`]
  })
  t.same(rows, expected)
})

t.test('every error is documented with its status and whether to retry, and none is stale', async (t) => {
  const rows = [...MANUAL_TEXT.matchAll(/^\| (\d{3}) \| `([A-Z_]+)` \| (yes|no) \|/gm)].map(([, ...cells]) =>
    cells.join(' '),
  )
  const expected = Object.entries(ERRORS)
    .filter(([, { status }]) => status !== 499)
    .map(([code, { status, retryable }]) => `${status} ${code} ${retryable ? 'yes' : 'no'}`)
  t.same(rows.sort(), expected.sort())
})

/** The table of endpoints in Markdown. */
function endpointTable(): string {
  const rows = ENDPOINTS.map(({ method, path, summary, description, scope, operator, idempotent }) => {
    const template = path.replaceAll(/:(\w+)/g, '{$1}')
    const does = description === undefined ? summary : `${summary}. ${description}`
    const key = scope === null ? 'none' : `\`${scope}\`${operator ? ' or `operator`' : ''}`
    return `| \`${method} ${template}\` | ${does} | ${key} | ${idempotent ? 'yes' : 'no'} |`
  })
  return ['| Endpoint | What it does | Scope | `Idempotency-Key` |', '|---|---|---|---|', ...rows].join('\n')
}

t.test('the table of endpoints is made of the endpoints that are served', async (t) => {
  const file = new URL('../../docs/api.md', import.meta.url)
  const text = await readFile(file, 'utf8')
  const table = /(?<=<!-- endpoints -->\n\n)[\s\S]*?(?=\n\n<!-- \/endpoints -->)/
  if (WRITES_EXAMPLES)
    await writeFile(
      file,
      text.replace(table, () => endpointTable()),
    )
  t.equal(table.exec(await readFile(file, 'utf8'))?.[0], endpointTable())
  // Nobody goes through them. The paths of the console are for its page, not for applications.
  const context = { services: { state: {} }, jobs: {} } as unknown as ApiContext
  const routes = createRoutes({ ...context, links: {} as ResultLinks })
  const rows = [...endpointTable().matchAll(/^\| `([A-Z]+ \/[^`]*)` \|/gm)].map(([, row = '']) =>
    row.replaceAll(/\{(\w+)\}/g, ':$1'),
  )
  t.same(
    rows,
    routes.map(({ method, path }) => `${method} ${path}`),
  )
})

/** Rows of the manual: each option, what becomes of it, and how. */
function optionTable(options: DoorOptions): string {
  const rows = Object.entries(options).map(([name, { fate, note }]) => `| \`${name}\` | ${fate} | ${note} |`)
  return ['| Option | | |', '|---|---|---|', ...rows].join('\n')
}

/** Tables of the options of doors, by the name of their place in the manual. */
const DOOR_TABLES = new Map([
  ['deepgram listen', { page: 'moving-from-deepgram', options: LISTEN_OPTIONS }],
  ['deepgram speak', { page: 'moving-from-deepgram', options: SPEAK_OPTIONS }],
  ['elevenlabs speech-to-text', { page: 'moving-from-elevenlabs', options: SCRIBE_OPTIONS }],
  [
    'elevenlabs text-to-speech',
    { page: 'moving-from-elevenlabs', options: { ...SPEECH_QUERY, ...SPEECH_OPTIONS } },
  ],
  ['assemblyai list', { page: 'moving-from-assemblyai', options: LIST_OPTIONS }],
  ['assemblyai transcript', { page: 'moving-from-assemblyai', options: TRANSCRIPT_OPTIONS }],
])

t.test('every option of a door is documented with what becomes of it', async (t) => {
  for (const [name, { page, options }] of DOOR_TABLES) {
    const file = new URL(`../../docs/${page}.md`, import.meta.url)
    const text = await readFile(file, 'utf8')
    const place = new RegExp(`(?<=<!-- options: ${name} -->\\n)[\\s\\S]*?(?=<!-- /options -->)`)
    const table = `\n${optionTable(options)}\n\n`
    if (WRITES_EXAMPLES)
      await writeFile(
        file,
        text.replace(place, () => table),
      )
    t.equal(place.exec(await readFile(file, 'utf8'))?.[0], table, name)
  }
  const places = [...MANUAL_TEXT.matchAll(/<!-- options: (.*?) -->/g)].map(([, name]) => name)
  t.same(places.sort(), [...DOOR_TABLES.keys()].sort())
})

t.test('every kind of provider is documented with what it serves and its options', async (t) => {
  const rows = [...section('Providers').matchAll(/^\| `([a-z-]+)` \| (.*?) \| (.*?) ?\|$/gm)].map(
    ([, kind, serves, options = '']) => [kind, serves, codeWords(options.replaceAll(/:[^,]*/g, ''))],
  )
  // The sandbox has a section of its own.
  const documented = (kind: string, options: string[]) => (kind === 'sandbox' ? [] : options)
  const expected = [...PROVIDERS].map(([kind, provider]) => [
    kind,
    // A provider's chat serves vision too.
    OPERATION_NAMES.filter((name) => name !== 'vision' && provider[name] !== undefined).join(', '),
    documented(kind, optionsOf(provider.optionsSchema)),
  ])
  const byKind = (one: unknown[], other: unknown[]) => (String(one[0]) < String(other[0]) ? -1 : 1)
  t.same(rows.sort(byKind), expected.sort(byKind))
  const told = new Set(codeWords(section('The sandbox')))
  const untold = optionsOf(PROVIDERS.get('sandbox')?.optionsSchema).filter((name) => !told.has(name))
  t.same(untold, [], 'options of the sandbox')
})

function optionsOf(schema: TSchema | undefined): string[] {
  return schema !== undefined && Type.IsObject(schema) ? Object.keys(schema.properties) : []
}

/** What maps each capability, feature or hint to something is one key. */
const ENUMERATED: ReadonlySet<string> = new Set([...CAPABILITIES, ...FEATURES, ...HINTS])

/** The keys of an object, those of objects within it as `outer.inner`. */
function keysOf(properties: Readonly<Record<string, TSchema>>): string[] {
  return Object.entries(properties).flatMap(([key, schema]) => {
    const inner = Type.IsObject(schema) ? keysOf(schema.properties) : []
    const whole = inner.length === 0 || inner.every((name) => ENUMERATED.has(name))
    return whole ? [key] : inner.map((name) => `${key}.${name}`)
  })
}

t.test('the answers that are shown are those of the demo', async (t) => {
  const key = makeKey()
  const outside = { kinds: PROVIDERS, models: SHIPPED, env: {}, readSecret: () => '', open: () => null }
  const demo = openDemo({ key, ...outside }).current()
  const [principal] = demo.keys.values()
  const shown = new Set(
    [...MANUAL_TEXT.matchAll(/"policy_version_id":"(pv_\w+)"/g)].map(([, version]) => version),
  )
  t.same([...shown], [principal?.route.version])
})

t.test('limits that no configuration changes are documented as they are', (t) => {
  const shown = (number: number) => number.toLocaleString('en-US')
  t.match(MANUAL_TEXT, `\`prompt\` has at most ${shown(PROMPT_LENGTH_MAX)} characters`)
  t.match(MANUAL_TEXT, `around it the body has at most ${shown(MAX_ENVELOPE_BYTES)} bytes`)
  t.end()
})

t.test('every key of the configuration is documented, and none is stale', async (t) => {
  const purpose = Object.values(WorkspaceShape.properties.purposes.patternProperties)[0] as Type.TObject
  const facts = new Set(keysOf(FACT_SHAPES))
  const besideFacts = (properties: Readonly<Record<string, TSchema>>) =>
    keysOf(properties).filter((key) => !facts.has(key))
  const expected = new Map<string, string[]>([
    ['The file', keysOf(CatalogFile.properties)],
    ['A plan', keysOf(PlanShape.properties)],
    ['A provider', besideFacts(ProviderShape.properties)],
    // The entry of a shadow is as any other.
    [
      'A route',
      [...new Set(keysOf(RouteShape.properties).map((key) => key.replace(/^(shadow\.entry)\..*/, '$1')))],
    ],
    ['An entry', besideFacts(EntryShape.properties)],
    // Live facts that are as those of the model have its words.
    [
      'A model',
      [...new Set([...facts].map((key) => key.replace(/^(live\.(?:price|limits\.keyterms))\..*/, '$1')))],
    ],
    ['A workspace', keysOf(WorkspaceShape.properties)],
    ['A purpose', keysOf(purpose.properties)],
    ['An app', keysOf(AppShape.properties)],
    ['A key', keysOf(KeyShape.properties)],
  ])
  const documented = new Map(
    [...section('Reference').matchAll(/^### (.*)\n([\s\S]*?)(?=\n### |$(?![\s\S]))/gm)].map(
      ([, name = '', table = '']): [string, string[]] => [
        name,
        [...table.matchAll(/^\| (`.*?`) \|/gm)].flatMap(([, keys = '']) => codeWords(keys)),
      ],
    ),
  )
  t.same([...documented.keys()], [...expected.keys()])
  for (const [name, keys] of expected) t.same(documented.get(name)?.sort(), keys.sort(), name)
})
