import { type TSchema, Type } from 'typebox'
import type { Principal, Selectors } from '../../contracts/catalog.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { ExtraName, ExtraOption, WithExtras } from '../../contracts/extras.ts'
import type { RequireFields, Requirements } from '../../contracts/requirements.ts'
import { allRequirements, requirementsOf } from '../../contracts/requirements.ts'
import type { Exchange } from '../edge/exchange.ts'
import { type Fields, queryValues, readBoolean } from '../edge/form.ts'
import { invalidField, MUST } from '../edge/refusals.ts'
import { unknownFields } from './fields.ts'
import { optional, refusedField } from './json-request.ts'
import type { Json } from './openapi/schema.ts'

/**
 * Fate of an option of a vendor's at its door:
 * - kept: it has the effect that it has there, or the request is refused
 * - feature: it is passed on to entries that take it, and no other is tried
 * - hint: it is passed on to entries that take it, and a warning tells where one does not
 * - fixed: it asks for what is done in any case
 * - warned: it has no effect, and the answer warns of that
 * - refused: 400, since the answer would not be the one that was asked for
 */
export type OptionFate = 'kept' | 'feature' | 'hint' | 'fixed' | 'warned' | 'refused'

export interface DoorOption {
  readonly fate: OptionFate
  /** Its effect, or why it has none. Part of warnings and refusals, and of the manual. */
  readonly note: string
  /** Shape of its value in a JSON body; absent: any, and none of what is refused. */
  readonly shape?: TSchema
  /** Values that ask for nothing, beside empty ones. A refused option may have the first of them. */
  readonly neutral?: readonly (string | number | boolean)[]
  /** Values of a feature that are a hint. */
  readonly hints?: readonly string[]
  /** Its name in OpenAI's chats; absent: the same. */
  readonly as?: ExtraName
  /** Makes the value that is passed on; undefined: nothing is. Absent: it is passed on as it was sent. */
  readonly value?: (sent: unknown) => unknown
}

export type DoorOptions = Readonly<Record<string, DoorOption>>

const optionOf =
  (fate: OptionFate) =>
  (note: string, more: Omit<DoorOption, 'fate' | 'note'> = {}): DoorOption => ({ fate, note, ...more })

/** Rows of a table of options, by their fate. */
export const kept = optionOf('kept')
export const feature = optionOf('feature')
export const hint = optionOf('hint')
export const fixed = optionOf('fixed')
export const warned = optionOf('warned')
export const refused = optionOf('refused')

/** Reads options that come as text, out of a query or a form, and accounts for each that was sent. */
export class OptionReader {
  readonly #values: ReadonlyMap<string, readonly string[]>
  readonly #options: DoorOptions
  readonly #asked = new Set<string>()

  constructor({ values }: Extract<Fields, { readonly kind: 'form' }>, options: DoorOptions) {
    this.#values = values
    this.#options = options
  }

  /** True where it was sent; it is accounted for as before. */
  has(name: string): boolean {
    return this.#sent(name).length > 0
  }

  list(name: string): readonly string[] {
    this.#asked.add(name)
    return this.#sent(name)
  }

  text(name: string): string | null {
    return this.list(name)[0] ?? null
  }

  /** @throws GatewayError INVALID_REQUEST when it was not sent */
  required(name: string): string {
    const text = this.text(name)
    if (text === null) throw invalidField(name, MUST.beGiven)
    return text
  }

  /** One of `words`, the first of which is the default. @throws GatewayError INVALID_REQUEST */
  word<const Word extends string>(name: string, words: readonly [Word, ...Word[]]): Word {
    const text = this.text(name) ?? words[0]
    const word = words.find((one) => one === text)
    if (word === undefined) throw invalidField(name, MUST.beOneOf(words))
    return word
  }

  flag(name: string): boolean | null {
    return this.flags(name)[0] ?? null
  }

  /** The same where every value counts that was sent. */
  flags(name: string): readonly boolean[] {
    return this.list(name).map((text) => {
      const value = readBoolean(text)
      if (value === null) throw invalidField(name, MUST.beOneOf(['true', 'false']))
      return value
    })
  }

  number(name: string): number | null {
    const text = this.text(name)
    if (text === null) return null
    const value = Number(text)
    if (!Number.isFinite(value)) throw invalidField(name, 'must be a number')
    return value
  }

  /**
   * Lines for `warnings` about options that have no effect.
   *
   * @throws GatewayError INVALID_REQUEST naming one that is refused, or is unknown and not off
   */
  settle(whyUnknown: string): string[] {
    const { warnings, unknown } = this.#judge()
    const first = unknown.find((name) => this.#sent(name).some(isOn))
    if (first !== undefined) throw invalidField(first, MUST.beLeftOut(whyUnknown))
    return warnings
  }

  /** The same, where unknown options are ignored with a warning. @throws GatewayError INVALID_REQUEST */
  settleKindly(): string[] {
    const { warnings, unknown } = this.#judge()
    return [...warnings, ...unknownFields(unknown, Object.keys(this.#options))]
  }

  #judge(): { readonly warnings: string[]; readonly unknown: string[] } {
    const warnings: string[] = []
    const unknown: string[] = []
    for (const name of this.#values.keys()) {
      const option = Object.hasOwn(this.#options, name) ? this.#options[name] : undefined
      const sent = this.#sent(name)
      if (this.#asked.has(name) || option?.fate === 'fixed' || sent.length === 0) continue
      if (option !== undefined && !sent.some(isOn)) continue
      // Never ignored: what is not understood would not be kept.
      if (name === 'require' && sent.some(isOn))
        throw invalidField(name, MUST.beLeftOut('send it as X-LK-Require'))
      if (option?.fate === 'refused') throw invalidField(name, MUST.beLeftOut(option.note))
      if (option?.fate === 'warned') warnings.push(`${name}: ${option.note}`)
      else unknown.push(name)
    }
    return { warnings, unknown }
  }

  #sent(name: string): readonly string[] {
    return (this.#values.get(name) ?? []).filter((value) => value !== '')
  }
}

export function isOn(value: string | null): boolean {
  return value !== null && value !== '' && value !== '[]' && readBoolean(value) !== false
}

export type FieldValue = string | number | boolean | null | readonly string[]

/** Fields as a form has them; those that are null, and empty lists, were not sent. */
export function formOf(fields: Readonly<Record<string, FieldValue>>): Fields {
  const given = Object.entries(fields).flatMap(([name, value]): (readonly [string, readonly string[]])[] => {
    if (value === null) return []
    // A list is repeated fields: a comma in the only one of them would divide it.
    if (typeof value === 'object') return value.length === 0 ? [] : [[name, [JSON.stringify(value)]]]
    return [[name, [String(value)]]]
  })
  return { kind: 'form', values: new Map(given) }
}

/** A flag that demands something of every entry, at every path of a door. */
export class DemandingFlag {
  readonly option: DoorOption
  readonly #name: string
  readonly #value: boolean
  readonly #fields: RequireFields

  /** @param value with which it demands the fields */
  constructor(name: string, value: boolean, fields: RequireFields) {
    const demanded = Object.entries(fields).map(([field, word]) => `${field}=${word}`)
    const note = `as \`${demanded.join(', ')}\` in \`X-LK-Require\`; required of every entry`
    this.option = { fate: 'kept', note: value ? note : `\`false\`: ${note}` }
    this.#name = name
    this.#value = value
    this.#fields = fields
  }

  /** The fields that the options demand; null: none. @throws GatewayError INVALID_REQUEST */
  in(options: OptionReader): RequireFields | null {
    return options.flags(this.#name).includes(this.#value) ? this.#fields : null
  }

  /** The same of a query that was not read yet. */
  demandedBy({ query }: Pick<Exchange, 'query'>): Requirements | null {
    const fields = this.in(new OptionReader(queryValues(query), {}))
    return fields === null ? null : requirementsOf(fields)
  }
}

/**
 * Selectors of a call that came by a door. Its `model` names a purpose of the workspace, and any other name is ignored;
 * fields that a flag demands join those of the call.
 */
export function doorSelectors(
  selectors: Selectors,
  { purposes }: Principal,
  model: string | null,
  demands: RequireFields | null = null,
): Selectors {
  const names = model !== null && selectors.purpose === null
  const isDeclared = names && purposes.some(({ purpose }) => purpose === model)
  const chosen = isDeclared ? { ...selectors, purpose: { label: model, source: 'body' as const } } : selectors
  if (demands === null) return chosen
  const require = allRequirements([chosen.require, requirementsOf(demands)])
  return require === null ? chosen : { ...chosen, require }
}

/**
 * Names the field at fault of an error as the clients of a door know it.
 *
 * @param names of theirs by those of ours
 */
export function renamed(error: GatewayError, names: Readonly<Record<string, string>>): GatewayError {
  const { param = '' } = error.extra
  const name = Object.hasOwn(names, param) ? names[param] : undefined
  if (name === undefined) return error
  // One with a dot is no word of a sentence.
  const quoted = param.includes('.') ? '' : '`'
  const message = error.message.replaceAll(`${quoted}${param}${quoted}`, `${quoted}${name}${quoted}`)
  return new GatewayError(error.code, message, { ...error.extra, param: name })
}

/** An option of a JSON body, and where it is in there. */
interface PlacedOption extends DoorOption {
  readonly name: string
  /** Members on the way to it; `[]`: any item of a list. */
  readonly path: readonly string[]
}

/** Reads options out of a JSON body by their table. A name with dots is that of a member. */
export class JsonOptions<Options extends DoorOptions> {
  /** Shapes of the options that are no members of others, but for those that are kept. */
  readonly members: { readonly [Name in keyof Options & string]: TSchema }
  readonly #passed: readonly PlacedOption[]
  readonly #warned: readonly PlacedOption[]

  constructor(options: Options) {
    const placed = Object.entries(options).map(([name, option]) => ({ ...option, name, path: pathOf(name) }))
    const plain = placed.filter(({ fate, path }) => fate !== 'kept' && path.length === 1)
    this.members = Object.fromEntries(
      plain.map((option) => [option.name, memberOf(option)]),
    ) as this['members']
    this.#passed = placed.filter(({ fate, path }) => isPassed(fate) && !path.includes('[]'))
    this.#warned = placed.filter(({ fate }) => fate === 'warned')
  }

  /** Warns of the options that have no effect. */
  warn(body: object, warn: (line: string) => void): void {
    for (const option of this.#warned)
      if (isAsked(option, valueAt(body, option.path, 0))) warn(`${option.name}: ${option.note}`)
  }

  /** Options that are passed on as they were sent; none where nothing was. */
  extras(body: object): WithExtras {
    return this.extrasOf((_name, path) => valueAt(body, path, 0))
  }

  /** The same of whatever has their values. */
  extrasOf(read: (name: string, path: readonly string[]) => unknown): WithExtras {
    let extras: ExtraOption[] | null = null
    for (const option of this.#passed) {
      const sent = read(option.name, option.path)
      if (!isAsked(option, sent)) continue
      const value = option.value === undefined ? sent : option.value(sent)
      if (value === undefined) continue
      extras ??= []
      const { name, as, hints, fate } = option
      const required = fate === 'feature' && hints?.includes(value as string) !== true
      extras.push(
        as === undefined
          ? { name: name as ExtraName, value, required }
          : { name: as, value, required, param: name },
      )
    }
    return extras === null ? NOTHING : { extras }
  }
}

const NOTHING: WithExtras = Object.freeze({})

function isPassed(fate: OptionFate): boolean {
  return fate === 'feature' || fate === 'hint'
}

/** `tools[].async` → tools, [], async. */
function pathOf(name: string): readonly string[] {
  return name.replaceAll('[]', '.[]').split('.')
}

function valueAt(value: unknown, path: readonly string[], at: number): unknown {
  const member = path[at]
  if (member === undefined) return value
  if (typeof value !== 'object' || value === null) return undefined
  if (member !== '[]') return valueAt((value as Readonly<Record<string, unknown>>)[member], path, at + 1)
  const found = Array.isArray(value) ? value.map((item) => valueAt(item, path, at + 1)) : []
  return found.find((one) => (one ?? false) !== false)
}

function isAsked({ fate, neutral }: DoorOption, value: unknown): boolean {
  if (value === null || value === undefined || value === '') return false
  if (typeof value === 'object') for (const _ in value) return true
  if (typeof value === 'object' || (value === false && fate === 'warned')) return false
  return neutral?.includes(value as string) !== true
}

function memberOf({ fate, note, shape, neutral }: DoorOption): TSchema {
  if (fate === 'refused' && neutral !== undefined) return optional(Type.Literal(neutral[0]!), note)
  if (fate === 'refused' && shape === undefined) return refusedField(note)
  return optional(shape ?? Type.Unknown(), fate === 'warned' ? `no effect: ${note}` : note)
}

/** Documents the options that are not refused, as text. */
export function formOptions(options: DoorOptions): Json {
  const taken = Object.entries(options).filter(([, { fate }]) => fate !== 'refused')
  return Object.fromEntries(taken.map(([name, { note }]) => [name, { type: 'string', description: note }]))
}

/** Documents the options as parameters of the query. */
export function optionsParameter(options: DoorOptions): Json {
  return {
    name: 'options',
    in: 'query',
    style: 'form',
    explode: true,
    schema: { type: 'object', properties: formOptions(options) },
    // Pages that send calls fill a form with this, instead of a value for every field.
    example: {},
  }
}
