import { invalidField, MUST } from './refusals.ts'

/** The fields of a request, without its audio: a JSON object, or the values of each form field in order. */
export type Fields =
  | { readonly kind: 'json'; readonly value: Record<string, unknown> }
  | { readonly kind: 'form'; readonly values: ReadonlyMap<string, readonly string[]> }

/** The parameters of a query as fields. */
export function queryValues(query: string): Extract<Fields, { readonly kind: 'form' }> {
  const values = new Map<string, string[]>()
  for (const [name, value] of new URLSearchParams(query)) {
    const known = values.get(name)
    if (known === undefined) values.set(name, [value])
    else known.push(value)
  }
  return { kind: 'form', values }
}

/** The fields without some of them; in forms also under the names of lists. */
export function withoutFields(fields: Fields, names: readonly string[]): Fields {
  if (fields.kind === 'json') {
    const kept = Object.entries(fields.value).filter(([name]) => !names.includes(name))
    return { kind: 'json', value: Object.fromEntries(kept) }
  }
  const kept = [...fields.values].filter(([name]) => !names.includes(bareName(name)))
  return { kind: 'form', values: new Map(kept) }
}

/** Names that are sources of audio in JSON; in a form they are refused, since only one of two could be meant. */
export const AUDIO_SOURCES: ReadonlySet<string> = new Set([
  ...['audio_base64', 'audio.base64', 'audio.data', 'audio.url', 'audio.upload_id', 'audio[base64]'],
  ...['audio[data]', 'audio[url]', 'audio[upload_id]'],
])

export interface TextRule<Choice extends string = string> {
  /** In Unicode code points. */
  readonly maxLength?: number
  readonly oneOf?: readonly Choice[]
}

export interface ListRule<Choice extends string = string> extends TextRule<Choice> {
  readonly maxItems?: number
}

/** Inclusive bounds; `above` is exclusive. */
export interface NumberRule {
  readonly min?: number
  readonly max?: number
  readonly above?: number
}

const DECIMAL = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i
const FORM_BOOLEANS: Readonly<Record<string, boolean>> = { true: true, false: false, 1: true, 0: false }

/**
 * Reads typed fields and remembers which names were asked for. In JSON values have JSON's own types: a
 * string is no boolean there. In forms text is converted, and an empty value counts as not sent. JSON's null
 * counts as not sent. Every method throws GatewayError INVALID_REQUEST with the field as `param`.
 */
export class FieldReader {
  readonly #fields: Fields
  readonly #asked: string[] = []

  constructor(fields: Fields) {
    this.#fields = fields
  }

  string<const Choice extends string = string>(name: string, rule: TextRule<Choice> = {}): Choice | null {
    const value = this.#scalar(name)
    if (value === null) return null
    if (typeof value !== 'string') throw invalidField(name, 'must be a string')
    checkText(name, value, rule)
    return value as Choice
  }

  /** The value as it was sent, for a caller that checks it itself: in a form a text; null: it was not sent. */
  unchecked(name: string): unknown {
    return this.#scalar(name)
  }

  boolean(name: string): boolean | null {
    const value = this.#scalar(name)
    const meant = this.#isForm() && typeof value === 'string' ? (readBoolean(value) ?? value) : value
    if (meant === null || typeof meant === 'boolean') return meant
    throw invalidField(name, MUST.beOneOf(this.#isForm() ? ['true', 'false', '1', '0'] : ['true', 'false']))
  }

  integer(name: string, rule: NumberRule = {}): number | null {
    const value = this.#number(name)
    if (value === null) return null
    if (!Number.isSafeInteger(value)) throw invalidField(name, 'must be an integer')
    return checkNumber(name, value, rule)
  }

  number(name: string, rule: NumberRule = {}): number | null {
    const value = this.#number(name)
    return value === null ? null : checkNumber(name, value, rule)
  }

  /**
   * A list of strings: in JSON an array. In forms repeated fields, fields named `name[]`, or one field that
   * holds a JSON array or a comma list. Only in a comma list are items trimmed and empty ones dropped.
   */
  stringList<const Choice extends string = string>(
    name: string,
    rule: ListRule<Choice> = {},
  ): Choice[] | null {
    const items = this.#fields.kind === 'json' ? this.#scalar(name) : this.#formList(name)
    if (items === null) return null
    if (!isStrings(items)) throw invalidField(name, 'must be a list of strings')
    if (items.length > (rule.maxItems ?? Infinity)) throw invalidField(name, MUST.haveItems(rule.maxItems))
    for (const item of items) checkText(name, item, rule)
    return items as Choice[]
  }

  /** A boolean or a list, such as `redaction`. What reads as a boolean is one. */
  booleanOrList<const Choice extends string = string>(
    name: string,
    rule: ListRule<Choice> = {},
  ): boolean | Choice[] | null {
    this.#asked.push(name)
    const { kind } = this.#fields
    if (kind === 'json') {
      const value = this.#scalar(name)
      return typeof value === 'boolean' ? value : this.stringList(name, rule)
    }
    const values = this.#formValues(name)
    const meant = values.length === 1 ? readBoolean(values[0]!) : null
    return meant ?? this.stringList(name, rule)
  }

  /**
   * A field that must be left out.
   *
   * @param why or what to do instead
   */
  refused(name: string, why: string): null {
    const texts = [...this.#formValues(name), ...this.#formValues(`${name}[]`)]
    const value = this.#isForm() ? texts.find((text) => text !== '') : this.#scalar(name)
    if ((value ?? null) !== null) throw invalidField(name, MUST.beLeftOut(why))
    return null
  }

  /**
   * True if the field was sent with a value: null, and an empty value in a form, count as not sent. `a.b` is the member
   * b of an object a; forms write it `a.b` or `a[b]`.
   */
  has(name: string): boolean {
    this.#asked.push(name)
    const [outer = '', inner] = name.split('.', 2)
    if (this.#fields.kind === 'form') {
      const { values } = this.#fields
      const bracketed = inner === undefined ? `${name}[]` : `${outer}[${inner}]`
      this.#asked.push(bracketed)
      return [name, bracketed].some((one) => values.get(one)?.some((text) => text !== '') === true)
    }
    const found = memberOf(this.#fields.value, outer)
    return (inner === undefined ? found : memberOf(found, inner)) !== null
  }

  /** Names that were asked for: those that the endpoint knows. */
  known(): readonly string[] {
    return [...new Set(this.#asked)]
  }

  /** Names that were sent and never asked for, members of `audio` as `audio.member`. */
  unknown(): string[] {
    const { kind } = this.#fields
    const sent = kind === 'form' ? [...this.#fields.values.keys()] : jsonNames(this.#fields.value)
    // A few are found in a list sooner than a set is made of it.
    const asked = sent.length > 16 ? new Set(this.#asked) : null
    const isAsked = (name: string) => asked?.has(name) ?? this.#asked.includes(name)
    const names = kind === 'form' ? sent.map((name) => (isAsked(name) ? name : bareName(name))) : sent
    return [...new Set(names)].filter((name) => !isAsked(name))
  }

  #isForm(): boolean {
    return this.#fields.kind === 'form'
  }

  /** The one value of a field, unconverted; null when it was not sent. */
  #scalar(name: string): unknown {
    this.#asked.push(name)
    if (this.#fields.kind === 'json') return memberOf(this.#fields.value, name)
    const values = this.#fields.values.get(name) ?? []
    if (values.length > 1) throw invalidField(name, 'must be sent once')
    return values[0] === undefined || values[0] === '' ? null : values[0]
  }

  #number(name: string): number | null {
    const value = this.#scalar(name)
    const text = this.#isForm() && typeof value === 'string'
    const number = text && DECIMAL.test(value.trim()) ? Number(value) : value
    if (number === null || (typeof number === 'number' && Number.isFinite(number))) return number
    throw invalidField(name, 'must be a number')
  }

  #formValues(name: string): readonly string[] {
    this.#asked.push(name)
    if (this.#fields.kind === 'json') return []
    return this.#fields.values.get(name) ?? []
  }

  #formList(name: string): unknown {
    const plain = this.#formValues(name)
    const bracketed = this.#formValues(`${name}[]`)
    if (plain.length === 1 && bracketed.length === 0) return readList(name, plain[0]!.trim())
    const items = [...plain, ...bracketed]
    return items.length === 0 ? null : items
  }
}

/** The boolean that a form field or query parameter says; null: none. */
export function readBoolean(text: string): boolean | null {
  return Object.hasOwn(FORM_BOOLEANS, text) ? FORM_BOOLEANS[text]! : null
}

function readList(name: string, text: string): unknown {
  if (text === '') return null
  if (!text.startsWith('[')) {
    const items = text.split(',').map((item) => item.trim())
    return items.filter((item) => item !== '')
  }
  try {
    return JSON.parse(text)
  } catch {
    throw invalidField(name, 'must be a JSON array or a comma list')
  }
}

function checkText(name: string, value: string, { maxLength = Infinity, oneOf }: TextRule): void {
  if (oneOf !== undefined && !oneOf.includes(value)) throw invalidField(name, MUST.beOneOf(oneOf))
  if (!value.isWellFormed()) throw invalidField(name, 'must be Unicode text without half a surrogate pair')
  if (value.length > maxLength && [...value].length > maxLength)
    throw invalidField(name, MUST.haveCharacters(maxLength))
}

function checkNumber(name: string, value: number, { min, max, above }: NumberRule): number {
  if (min !== undefined && value < min) throw invalidField(name, MUST.beAtLeast(min))
  if (above !== undefined && value <= above) throw invalidField(name, MUST.beGreaterThan(above))
  if (max !== undefined && value > max) throw invalidField(name, MUST.beAtMost(max))
  return value
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}

function bareName(name: string): string {
  return name.endsWith('[]') ? name.slice(0, -2) : name
}

/** An own member of an object; null where there is none, or null. */
function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return null
  return (value as Record<string, unknown>)[name] ?? null
}

function jsonNames(object: Record<string, unknown>): string[] {
  return Object.entries(object).flatMap(([name, value]) => {
    if (name !== 'audio' || typeof value !== 'object' || value === null) return [name]
    return Object.keys(value).map((member) => `audio.${member}`)
  })
}
