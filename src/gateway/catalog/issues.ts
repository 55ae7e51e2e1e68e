import type { TSchema } from 'typebox'
import { Settings } from 'typebox/system'
import { Pointer, Value } from 'typebox/value'

/** Keys and indexes that lead to a place in the file. */
export type Path = readonly (string | number)[]

export interface Issue {
  readonly path: Path
  /** May repeat names, but never a credential, an address or text from another source. */
  readonly message: string
}

/** Collects the problems of a configuration. */
export class Issues {
  readonly #found: Issue[] = []

  add(path: Path, message: string): void {
    this.#found.push({ path, message })
  }

  /** In the order in which they were found. */
  get found(): readonly Issue[] {
    return this.#found
  }
}

/** Adds an issue of bounds that nothing is within. */
export function checkBounds(
  { min = 0, max = Number.POSITIVE_INFINITY }: { readonly min?: number; readonly max?: number } = {},
  path: Path,
  issues: Issues,
): void {
  if (min > max) issues.add([...path, 'min'], `must not be over max: ${max}`)
}

/** Lists every issue once, as a line such as `/routes/voice/entries/0/provider: there is no provider "x"`. */
export function issueLines(issues: readonly Issue[]): string[] {
  return [...new Set(issues.map(({ path, message }) => `${pathText(path)}: ${message}`))]
}

/** A JSON pointer. */
function pathText(path: Path): string {
  if (path.length === 0) return '/'
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

/** Adds an issue for every way in which `value` does not fit the schema. */
export function checkShape(schema: TSchema, value: unknown, path: Path, issues: Issues): void {
  for (const error of allErrors(schema, value)) {
    const at = [...path, ...error.instancePath.split('/').slice(1).map(unescaped)]
    switch (error.keyword) {
      case 'additionalProperties': {
        const isNamedList = Object.hasOwn(
          Object(Pointer.Get(schema, error.schemaPath.slice(1))),
          'patternProperties',
        )
        const what = isNamedList
          ? 'must be named with 1 to 64 letters, digits, ".", "_" or "-"'
          : 'is not a known key; remove it or correct its spelling'
        for (const name of error.params.additionalProperties) issues.add([...at, name], what)
        break
      }
      case 'required':
        for (const name of error.params.requiredProperties) issues.add([...at, name], 'is missing')
        break
      case 'enum':
        issues.add(at, `must be one of ${error.params.allowedValues.join(', ')}`)
        break
      case 'pattern':
        issues.add(at, `must be ${formAt(schema, error.schemaPath) ?? 'as documented'}`)
        break
      case 'boolean':
        // Comes with every unknown key, beside `additionalProperties`.
        break
      default:
        issues.add(at, error.message)
    }
  }
}

/** Describes a pattern in words, for people. Editors look for it under the same name. */
function formAt(schema: TSchema, schemaPath: string): string | null {
  const part: unknown = Pointer.Get(schema, schemaPath.slice(1))
  return typeof part === 'object' && part !== null && 'patternErrorMessage' in part
    ? String(part.patternErrorMessage)
    : null
}

/** All that one reads: of a hostile text each error costs time. */
const ERRORS_MAX = 1_000

/** TypeBox stops at 8 errors by default, to spare servers; an operator wants to see all. */
function allErrors(schema: TSchema, value: unknown) {
  const { maxErrors } = Settings.Get()
  Settings.Set({ maxErrors: ERRORS_MAX })
  try {
    return Value.Errors(schema, value)
  } finally {
    Settings.Set({ maxErrors })
  }
}

function unescaped(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~')
}

/** A copy of `value` without the keys that the schema does not know, so that the rest can be looked at further. */
export function withoutUnknownKeys(schema: TSchema, value: unknown): unknown {
  return Value.Clean(schema, structuredClone(value))
}
