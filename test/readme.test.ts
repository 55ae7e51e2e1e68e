import { access, readFile, writeFile } from 'node:fs/promises'
import t from 'tap'
import { type TSchema, Type } from 'typebox'
import { openDemo } from '../src/catalog/demo.ts'
import {
  AppShape,
  CatalogFile,
  EntryShape,
  KeyShape,
  PlanShape,
  ProviderShape,
  RouteShape,
  WorkspaceShape,
} from '../src/catalog/file.ts'
import { makeKey } from '../src/catalog/key.ts'
import { ENVIRONMENT_SCHEMA } from '../src/config.ts'
import { ERRORS } from '../src/errors.ts'
import { factsOf } from '../src/providers/facts.ts'
import { PROVIDERS } from '../src/providers/index.ts'
import type { Doors } from '../src/routes/endpoint.ts'
import type { Readiness } from '../src/routes/health.ts'
import type { ResultLinks } from '../src/routes/results.ts'
import { createRoutes } from '../src/routes/table.ts'
import type { WebhookOptions } from '../src/routes/workspace-webhook.ts'
import { CAPABILITIES, FEATURES, HINTS } from '../src/schema/calls.ts'
import { FACT_SHAPES } from '../src/schema/facts.ts'
import { OPERATION_NAMES } from '../src/schema/operations.ts'
import { larkway } from './support/cli.ts'

const README = await readFile(new URL('../README.md', import.meta.url), 'utf8')

/** The text of a section, its parts included. */
function section(title: string): string {
  const [, text = ''] = README.split(`\n## ${title}\n`)
  return text.split('\n## ')[0] ?? ''
}

/** The words in backticks, outside blocks of code. */
const wordsIn = (text: string) =>
  [...text.replaceAll(/^```.*\n[\s\S]*?^```$/gm, '').matchAll(/`([^`]+)`/g)].map(([, word = '']) => word)

t.test('every link leads somewhere', async (t) => {
  const prose = README.replaceAll(/^```.*\n[\s\S]*?^```$/gm, '')
  const anchors = [...prose.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  )
  const targets = [...prose.matchAll(/\]\(([^)]+)\)/g)].map(([, target = '']) => target)
  t.ok(targets.length > 20)
  for (const target of targets.filter((each) => !each.startsWith('https://'))) {
    if (target.startsWith('#')) t.ok(anchors.includes(target.slice(1)), target)
    else await t.resolves(access(new URL(`../${target.split('#')[0]}`, import.meta.url)), target)
  }
})

t.test('every variable is documented as it is, and none is stale', async (t) => {
  const rows = [...README.matchAll(/^\| `([A-Z0-9_]+)` \| (?:`([^`]*)`)? ?\| (.*) \|$/gm)].map(
    ([, ...cells]) => cells,
  )
  const expected = Object.entries(ENVIRONMENT_SCHEMA.properties).map(([name, schema]) => {
    const { default: value, description } = schema as { default?: unknown; description?: string }
    return [name, value === undefined ? undefined : String(value), description]
  })
  t.same(rows, expected)
})

t.test('every error is documented with its status and whether to retry, and none is stale', async (t) => {
  const rows = [...README.matchAll(/^\| (\d{3}) \| `([A-Z_]+)` \| (yes|no) \|/gm)].map(([, ...cells]) =>
    cells.join(' '),
  )
  const expected = Object.entries(ERRORS)
    .filter(([, { status }]) => status !== 499)
    .map(([code, { status, retryable }]) => `${status} ${code} ${retryable ? 'yes' : 'no'}`)
  t.same(rows.sort(), expected.sort())
})

t.test('every path is documented, and none is stale', async (t) => {
  const rows = [...section('Endpoints').matchAll(/^\| `([A-Z]+ \/[^`]*)` \|/gm)].map(([, row = '']) =>
    row.replaceAll(/\{(\w+)\}/g, ':$1'),
  )
  // Nobody goes through them. Without a desk the console is left out: its paths are for its page, not for applications.
  const doors = { services: { state: {} }, jobs: {} } as unknown as Doors
  const routes = createRoutes(doors, {} as Readiness, {} as ResultLinks, {} as WebhookOptions)
  t.same(rows.sort(), routes.map(({ method, path }) => `${method} ${path}`).sort())
})

t.test('every kind of provider is documented with what it serves and its options', async (t) => {
  const rows = [...section('Providers').matchAll(/^\| `([a-z-]+)` \| (.*?) \| (.*?) ?\|$/gm)].map(
    ([, kind, serves, options = '']) => [kind, serves, wordsIn(options.replaceAll(/:[^,]*/g, ''))],
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
  const told = new Set(wordsIn(section('The sandbox')))
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
  const outside = { kinds: PROVIDERS, factsOf, env: {}, readSecret: () => '', open: () => null }
  const demo = openDemo({ key, ...outside }).current()
  const [principal] = demo.keys.values()
  const shown = new Set([...README.matchAll(/"policy_version_id":"(pv_\w+)"/g)].map(([, version]) => version))
  t.same([...shown], [principal?.route.version])
})

t.test('every key of the configuration is documented, and none is stale', async (t) => {
  const purpose = Object.values(WorkspaceShape.properties.purposes.patternProperties)[0] as Type.TObject
  const facts = new Set(keysOf(FACT_SHAPES))
  const besideFacts = (properties: Readonly<Record<string, TSchema>>) =>
    keysOf(properties).filter((key) => !facts.has(key))
  const expected = new Map<string, string[]>([
    ['the file', keysOf(CatalogFile.properties)],
    ['a plan', keysOf(PlanShape.properties)],
    ['a provider', besideFacts(ProviderShape.properties)],
    ['a route', keysOf(RouteShape.properties)],
    ['an entry', besideFacts(EntryShape.properties)],
    ['a model', [...facts]],
    ['a workspace', keysOf(WorkspaceShape.properties)],
    ['a purpose', keysOf(purpose.properties)],
    ['an app', keysOf(AppShape.properties)],
    ['a key', keysOf(KeyShape.properties)],
  ])
  const documented = new Map<string, string[]>()
  let of = ''
  const table = section('Configuration').split('| Of | Key | Meaning |')[1]?.split('\n\n')[0] ?? ''
  for (const [, given = '', keys = ''] of table.matchAll(/^\| (.*?) ?\| (`.*?`) \|/gm)) {
    of = given === '' ? of : given
    documented.set(of, [...(documented.get(of) ?? []), ...wordsIn(keys)])
  }
  t.same([...documented.keys()], [...expected.keys()])
  for (const [name, keys] of expected) t.same(documented.get(name)?.sort(), keys.sort(), name)
})

t.test('the example is a configuration, and is explained as it is said', async (t) => {
  const [, example = ''] = /```yaml\n([\s\S]*?)```/.exec(section('Configuration')) ?? []
  const config = `${t.testdir()}/larkway.yaml`
  await writeFile(config, example.replace('"…"', `"${'0'.repeat(64)}"`))
  const shown = [...section('Routing').matchAll(/^\$ npx larkway (route explain .*)\n((?:[^$`].*\n)+)/gm)]
  t.equal(shown.length, 2)
  for (const [, command = '', output] of shown) {
    const ran = await larkway([...command.split(' '), '--config', config])
    t.equal(ran.errors, '')
    t.equal(ran.output, output, command)
  }
})
