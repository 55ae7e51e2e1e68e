import type { TSchema } from 'typebox'
import { Settings } from 'typebox/system'
import { Pointer, Value } from 'typebox/value'

/** Where something stands in the file: the keys and indexes that lead there. */
export type Path = readonly (string | number)[]

export interface Fault {
  readonly path: Path
  /** May repeat names, never a credential, an address or what was read from elsewhere. */
  readonly message: string
}

/** What is wrong with a configuration. */
export class Faults {
  readonly #found: Fault[] = []

  add(path: Path, message: string): void {
    this.#found.push({ path, message })
  }

  /** In the order in which they were found. */
  get found(): readonly Fault[] {
    return this.#found
  }
}

/** Every fault once, as a line such as `/routes/voice/entries/0/provider: there is no provider "x"`. */
export function linesOf(faults: readonly Fault[]): string[] {
  return [...new Set(faults.map(({ path, message }) => `${pathText(path)}: ${message}`))]
}

/** A JSON pointer. */
function pathText(path: Path): string {
  if (path.length === 0) return '/'
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

/** Adds every way in which `value` does not have the shape. */
export function checkShape(schema: TSchema, value: unknown, path: Path, faults: Faults): void {
  for (const error of allErrors(schema, value)) {
    const at = [...path, ...error.instancePath.split('/').slice(1).map(unescaped)]
    switch (error.keyword) {
      case 'additionalProperties': {
        const isNamedList = Object.hasOwn(
          Object(Pointer.Get(schema, error.schemaPath.slice(1))),
          'patternProperties',
        )
        const what = isNamedList
          ? 'a name has 1 to 64 letters, digits, ".", "_" or "-"'
          : 'there is no such key'
        for (const name of error.params.additionalProperties) faults.add([...at, name], what)
        break
      }
      case 'required':
        for (const name of error.params.requiredProperties) faults.add([...at, name], 'is missing')
        break
      case 'enum':
        faults.add(at, `must be one of ${error.params.allowedValues.join(', ')}`)
        break
      case 'pattern':
        faults.add(at, `must be ${formAt(schema, error.schemaPath) ?? 'as documented'}`)
        break
      case 'boolean':
        // Comes with every unknown key, beside `additionalProperties`.
        break
      default:
        faults.add(at, error.message)
    }
  }
}

/** What a pattern stands for: the pattern itself is for machines. Editors look for it under the same name. */
function formAt(schema: TSchema, schemaPath: string): string | null {
  const part: unknown = Pointer.Get(schema, schemaPath.slice(1))
  return typeof part === 'object' && part !== null && 'patternErrorMessage' in part
    ? String(part.patternErrorMessage)
    : null
}

/** TypeBox stops at 8 errors by default, to spare servers; an operator wants to see all. */
function allErrors(schema: TSchema, value: unknown) {
  const { maxErrors } = Settings.Get()
  Settings.Set({ maxErrors: Number.MAX_SAFE_INTEGER })
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
