import { asSchema, type Contract, listOf, type Schema } from './contract.ts'
import { propertiesOf } from './requests.ts'

type Json = Record<string, unknown>

/** An answer that fits its contract. */
export interface Variant {
  readonly name: string
  readonly answer: unknown
}

/** Greatest depth to which a schema is followed, since it may hold itself. */
const DEPTH_MAX = 14
/** Most variants of an answer that differ from it in one place. */
const SINGLES_MAX = 400

const WORDY = /^(?:text|transcript|word|punctuated_word|content|sentence)$/
const SHARE = /confidence|probability|score/

/**
 * The fullest answer of a schema, and what it becomes when it is left out what may be: everything at once, one thing
 * at a time, null where null is allowed, and zeros as interfaces made of protocol buffers leave them out.
 *
 * @param align makes parts of an answer agree that the schema knows nothing of; must leave it valid
 */
export function variantsOf(
  contract: Contract,
  schema: Schema,
  align: (answer: Json) => void = () => {},
): Variant[] {
  const sampler = new Sampler(contract)
  const fullest = sampler.sample(schema, '', 0)
  const fits = (value: unknown) => contract.faults(schema, value).length === 0
  const settled = (value: unknown) => {
    const answer = structuredClone(value)
    if (typeof answer === 'object' && answer !== null && !Array.isArray(answer)) align(answer as Json)
    return answer
  }
  agree(fullest)
  const whole = settled(fullest)
  if (!fits(whole)) return []
  const found: Variant[] = [{ name: 'everything', answer: whole }]
  const add = (name: string, answer: unknown) => {
    if (fits(answer)) found.push({ name, answer: settled(answer) })
  }
  add('nothing that may be left out', reduced(whole, fits, removed))
  add('null wherever it is allowed', reduced(whole, fits, nulled))
  add(
    'zeros left out',
    reduced(whole, fits, (value, path) => (at(value, path) === 0 ? removed(value, path) : value)),
  )
  for (const path of pathsOf(whole).slice(0, SINGLES_MAX)) {
    const name = path.join('.')
    for (const [how, change] of [
      ['without', removed],
      ['null at', nulled],
    ] as const) {
      const changed = change(whole, path)
      if (fits(changed)) add(`${how} ${name}`, changed)
    }
  }
  return found.filter(({ answer }) => fits(answer))
}

/** One value of a schema, with all that it may hold. */
export function sampleOf(contract: Contract, schema: Schema): unknown {
  return new Sampler(contract).sample(schema, '', 0)
}

type Path = readonly (string | number)[]

/** Changed in every place where it still fits, the innermost first. */
function reduced(
  value: unknown,
  fits: (value: unknown) => boolean,
  change: (value: unknown, path: Path) => unknown,
) {
  return pathsOf(value, true).reduceRight<unknown>((now, path) => {
    const next = change(now, path)
    return fits(next) ? next : now
  }, value)
}

/** Properties of objects; of lists all items, or only the first. */
function pathsOf(value: unknown, all = false, from: Path = []): Path[] {
  if (Array.isArray(value)) {
    const items = all ? value : value.slice(0, 1)
    return items.flatMap((item, index) => pathsOf(item, all, [...from, index]))
  }
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [
    [...from, key],
    ...pathsOf(inner, all, [...from, key]),
  ])
}

function at(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((inner, key) => asSchema(inner)[key], value)
}

function removed(value: unknown, path: Path): unknown {
  return changed(value, path, (object, key) => delete object[key])
}

function nulled(value: unknown, path: Path): unknown {
  return changed(value, path, (object, key) => {
    object[key] = null
  })
}

function changed(value: unknown, path: Path, change: (object: Json, key: string) => void): unknown {
  const copy = structuredClone(value)
  const holder = at(copy, path.slice(0, -1))
  if (typeof holder === 'object' && holder !== null) change(holder as Json, `${path.at(-1)}`)
  return copy
}

/** Makes up one value of a schema with all that it may hold. */
class Sampler {
  readonly #contract: Contract
  #words = 0
  #clock = 0
  readonly #inside: string[] = []

  constructor(contract: Contract) {
    this.#contract = contract
  }

  sample(given: Schema, name: string, depth: number): unknown {
    const ref = typeof given.$ref === 'string' ? given.$ref : null
    if (depth > DEPTH_MAX || (ref !== null && this.#inside.includes(ref))) return undefined
    if (ref !== null) this.#inside.push(ref)
    const value = this.#of(this.#contract.resolve(given), name, depth)
    if (ref !== null) this.#inside.pop()
    return value
  }

  #of(schema: Schema, name: string, depth: number): unknown {
    if ('const' in schema) return schema.const
    if (Array.isArray(schema.enum)) return schema.enum.find((one) => one !== null)
    const { type, properties, allOf, anyOf } = schema
    const kind = Array.isArray(type) ? type.find((one) => one !== 'null') : type
    if (kind === 'object' || properties !== undefined || (allOf !== undefined && kind === undefined))
      return this.#object(schema, depth)
    const branches = listOf(anyOf).filter((one) => this.#contract.resolve(one).type !== 'null')
    for (const branch of branches) {
      const value = this.sample({ ...branch }, name, depth + 1)
      if (value !== undefined) return value
    }
    switch (kind) {
      case 'array':
        return this.#list(asSchema(schema.items), name, depth, schema)
      case 'string':
        return this.#text(schema, name)
      case 'number':
      case 'integer':
        return this.#number(schema, name)
      case 'boolean':
        return true
      default:
        return undefined
    }
  }

  #object(schema: Schema, depth: number): Json {
    const properties = propertiesOf(this.#contract, schema)
    const entries = [...properties].map(([key, one]) => [key, this.sample(one, key, depth + 1)] as const)
    return Object.fromEntries(entries.filter(([, value]) => value !== undefined))
  }

  /** Times begin anew with every list: that of an item may be zero. */
  #list(items: Schema, name: string, depth: number, { minItems = 0, maxItems = 2 }: Schema): unknown[] {
    const before = this.#clock
    this.#clock = 0
    const count = Math.max(Number(minItems), Math.min(2, Number(maxItems)))
    const list = Array.from({ length: count }, () => this.sample(items, name, depth + 1))
    this.#clock = before
    return list.filter((item) => item !== undefined)
  }

  #text({ pattern, format, minLength = 0 }: Schema, name: string): string {
    if (typeof pattern === 'string') {
      const fitting = ['en', 'en-US', '2026-01-01T00:00:00', 'abc', '1', 'a'.repeat(36)].find((one) =>
        new RegExp(pattern).test(one),
      )
      if (fitting !== undefined) return fitting
    }
    if (/language|^code$/.test(name)) return 'en'
    if (WORDY.test(name)) {
      this.#words += 1
      return `word${this.#words}`
    }
    if (/b64|base64|audio_data|^data$/.test(name) || format === 'binary')
      return Buffer.from('sound').toString('base64')
    if (/url|uri/.test(name)) return `https://cdn.example/${name}`
    if (format === 'date-time') return '2026-01-01T00:00:00Z'
    return name === 'arguments' ? '{"a":1}' : `${name || 'text'}_1`.padEnd(Number(minLength), 'x')
  }

  #number({ minimum = -Infinity, maximum = Infinity }: Schema, name: string): number {
    const wanted = /^(?:start|end)(?:_|$)/.test(name)
      ? this.#time(name)
      : /logprob/.test(name)
        ? -0.25
        : SHARE.test(name)
          ? 0.9
          : 1
    return Math.min(Math.max(wanted, Number(minimum)), Number(maximum))
  }

  #time(name: string): number {
    if (name.startsWith('end')) this.#clock += 1
    return this.#clock
  }
}

/** Texts are made of the words beside them, so that what is told twice is told alike. */
function agree(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  for (const inner of Object.values(value)) agree(inner)
  const object = value as Json
  const key = ['text', 'transcript'].find((name) => typeof object[name] === 'string')
  if (key === undefined) return
  const words = listOf(object.words).map(spelled)
  const parts = listOf(object.segments) as Json[]
  if (words.length > 0) {
    object[key] = words.join(' ')
    for (const [index, part] of parts.entries()) part.text = words[index] ?? ''
  } else if (parts.length > 0) object[key] = parts.map(({ text }) => text).join(' ')
}

/** A word within a text. */
export function spelled(word: Schema): string {
  return `${word.punctuated_word ?? word.word ?? word.text ?? ''}`
}
