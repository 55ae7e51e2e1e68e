import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import { fileURLToPath } from 'node:url'
import { parse } from 'acorn'

// `node test/support/regular-expressions.ts` proves every expression of src anew and writes down the linear ones, so
// that `npm test` proves only those that came since.

/** Of what npm installs, the part in plain JavaScript: the others need a JVM, or are one binary for each platform. */
const { checkSync } = createRequire(import.meta.url)('recheck/lib/browser.js') as typeof import('recheck')

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const PROVED = fileURLToPath(new URL('../fixtures/linear-expressions.json', import.meta.url))

export interface Pattern {
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
export function patternsIn(path: string, source: string) {
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

/** @returns how its time may grow, if not in proportion to the text; null: it cannot */
export function growthOf({ source, flags }: Pick<Pattern, 'source' | 'flags'>): string | null {
  const proof = proofOf(source, flags)
  const isProved = proof !== null && proof.status !== 'unknown'
  const diagnosis = isProved ? proof : checkSync(source, flags, TRIALS)
  if (diagnosis.status === 'safe') return null
  return diagnosis.status === 'vulnerable' ? diagnosis.complexity.summary : diagnosis.status
}

/** All of `src`, each pattern once. */
export function readPatterns() {
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

/** The expressions that were proved to be linear when the list was written. */
export function readProved(): ReadonlySet<string> {
  return new Set(JSON.parse(readFileSync(PROVED, 'utf8')) as string[])
}

if (import.meta.main ?? process.argv[1]?.endsWith('support/regular-expressions.ts')) {
  const linear = [...readPatterns().patterns].filter(([, pattern]) => growthOf(pattern) === null)
  writeFileSync(PROVED, `${JSON.stringify(linear.map(([name]) => name).sort(), null, 2)}\n`)
}
