import { globSync, readFileSync } from 'node:fs'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import { fileURLToPath } from 'node:url'
import { parse } from 'acorn'
import t, { test } from 'tap'

/** Of what npm installs, the part in plain JavaScript: the others need a JVM, or are one binary for each platform. */
const { checkSync } = createRequire(import.meta.url)('recheck/lib/browser.js') as typeof import('recheck')

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** Patterns that take more than linear time and stay, and which text they are for. */
const BOUNDED: Readonly<Record<string, string>> = {
  '/^\\s*(?:import|export)\\b(?:[^\'"`;()]*?\\bfrom)?\\s*([\'"])([^\'"]+)\\1/gm':
    "reads the console's own modules, once, at start",
}

/** Expressions made of what only a running program knows, by the text of their argument, and what that is. */
const MADE: Readonly<Record<string, string>> = {
  pattern: "an operator's voice_pattern, for voices of at most 256 characters",
  '`^-- ${line}(.*(?:\\\\n-- {2,}.*)*)$`': 'reads the headers of our own scripts, once, at start',
  "String.raw`[${UNSPACED}]|(?:(?![${UNSPACED}])[\\p{L}\\p{N}\\p{M}'’])+`": 'one class, repeated, is linear',
  "`[${names.map((name) => `\\\\p{Script=${name}}`).join('')}]`": 'one class',
  '`^${COOKIE}[\\\\w-]{${COOKIE_NAME_LENGTH}}$`': 'of fixed length',
}

interface Pattern {
  readonly source: string
  readonly flags: string
  readonly places: string[]
}

type Node = Record<string, unknown> & { readonly type: string; readonly start: number; readonly end: number }

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Node).type === 'string'

/** Every node of a syntax tree. */
function* nodesOf(node: Node): Generator<Node> {
  yield node
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) yield* nodesOf(child)
  }
}

/**
 * Patterns of a file: its literals, texts that are one for a schema or for `RegExp` (ours begin with `^`), and the
 * arguments of `RegExp` that are no constant.
 */
function patternsIn(path: string, source: string) {
  const script = stripTypeScriptTypes(source)
  const tree = parse(script, { ecmaVersion: 'latest', sourceType: 'module' }) as unknown as Node
  const found: Pattern[] = []
  const made: string[] = []
  const add = (node: Node, pattern: string, flags: string) => {
    const line = script.slice(0, node.start).split('\n').length
    found.push({ source: pattern, flags, places: [`${path}:${line}`] })
  }
  for (const node of nodesOf(tree)) {
    const { regex, value, callee } = node as { regex?: unknown; value?: unknown; callee?: unknown }
    if (node.type === 'Literal' && regex !== undefined) {
      const { pattern, flags } = regex as { pattern: string; flags: string }
      add(node, pattern, flags)
    } else if (node.type === 'Literal' && typeof value === 'string' && value.startsWith('^')) {
      add(node, value, '')
    } else if (isNode(callee) && callee.name === 'RegExp') {
      const [argument] = node.arguments as readonly Node[]
      const text = script.slice(argument!.start, argument!.end)
      const isConstant = argument!.type === 'Literal' || /^[A-Z_]+(?:\.pattern)?$/.test(text)
      if (!isConstant) made.push(text)
    }
  }
  return { found, made }
}

/** The search for an attack by trial, where a look-around or a reference leaves no other way. */
const TRIALS = {
  checker: 'fuzz',
  maxIteration: 3,
  maxInitialGenerationSize: 100,
  maxGenerationSize: 40,
  crossoverSize: 20,
  mutationSize: 20,
} as const

/** @returns null where the proof is larger than the stack */
function proofOf(source: string, flags: string) {
  try {
    return checkSync(source, flags, { checker: 'automaton', timeout: null })
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

/** @returns how its time grows, where it may be faster than with the length of a text; null: it does not */
function growthOf({ source, flags }: Pick<Pattern, 'source' | 'flags'>): string | null {
  const proof = proofOf(source, flags)
  const isProved = proof !== null && proof.status !== 'unknown'
  const diagnosis = isProved ? proof : checkSync(source, flags, TRIALS)
  if (diagnosis.status === 'safe') return null
  return diagnosis.status === 'vulnerable' ? diagnosis.complexity.summary : diagnosis.status
}

/** All of `src`, each pattern once. */
function readPatterns() {
  const patterns = new Map<string, Pattern>()
  const made: string[] = []
  for (const path of globSync('src/**/*.ts', { cwd: ROOT })) {
    const read = patternsIn(path, readFileSync(`${ROOT}${path}`, 'utf8'))
    made.push(...read.made)
    for (const pattern of read.found) {
      const name = `/${pattern.source}/${pattern.flags}`
      patterns.get(name)?.places.push(...pattern.places)
      if (!patterns.has(name)) patterns.set(name, pattern)
    }
  }
  return { patterns, made }
}

t.setTimeout(300_000)

test('the check finds what is worse than linear, and where it stands', (t) => {
  const sample = [
    'const TRIM = /^[\\t ]+|[\\t ]+$/g',
    "const SCHEMA: { pattern: string } = { pattern: '^(a+)+$' }",
    'const LOOK = /^(?=a)(?:a|b|ab)*$/ // as /a+$/ in a comment',
    'const half = (a as number) / 2 / b',
    'new RegExp(`${half}+`)',
  ].join('\n')
  const { found, made } = patternsIn('sample.ts', sample)
  t.same(
    found.map(({ places }) => places[0]),
    ['sample.ts:1', 'sample.ts:2', 'sample.ts:3'],
  )
  t.same(made, ['`${half}+`'])
  t.match(found.map(growthOf), [/polynomial/, /exponential/, /exponential/])
  for (const source of ['^[a-z]+$', '[a-z]+', '^(?=.{1,9}$)[a-z]+$'])
    t.equal(growthOf({ source, flags: '' }), null)
  t.end()
})

test('no regular expression of src takes more than linear time', (t) => {
  const { patterns, made } = readPatterns()
  t.ok(patterns.size > 250, `${patterns.size} patterns`)
  const bad = [...patterns].flatMap(([name, pattern]) => {
    const growth = growthOf(pattern)
    return growth === null ? [] : [{ name, growth, places: pattern.places }]
  })
  const names = bad.map(({ name }) => name)
  t.same(
    bad.filter(({ name }) => BOUNDED[name] === undefined),
    [],
    'trim by loops (src/trim.ts), or bound the repetition',
  )
  t.same(
    Object.keys(BOUNDED).sort(),
    names.filter((name) => BOUNDED[name] !== undefined).sort(),
    'no stale exception',
  )
  t.same(made.sort(), Object.keys(MADE).sort(), 'a pattern made at run time has its reason')
  t.end()
})
