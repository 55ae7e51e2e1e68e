import { type SealContext, seal } from '../sealing.ts'

/** What a reference is resolved with. */
export interface SecretSources {
  readonly env: Readonly<Record<string, string | undefined>>
  /**
   * The text of a file; a relative path is one from the folder of the configuration.
   *
   * @throws Error when it cannot be read
   */
  readonly readSecret: (path: string) => string
  /** What was sealed in this context; null where no key opens it. */
  readonly open: (sealed: string, context: SealContext) => string | null
}

/** A secret, or why there is none. `fault` never holds a part of a value. */
export type Secret =
  | { readonly value: string; readonly fault?: never }
  | { readonly fault: string; readonly value?: never }

const VARIABLE = /^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$/
const FILE = 'file:'
const SEALED = 'sealed:'
const NOT_A_REFERENCE = `a secret is never written here: name it as \${ENV_NAME} or file:<path>`
const NOT_OPENED =
  'no key opens what was sealed: LARKWAY_SECRET_KEYS lacks the one it was sealed with for this provider'
/** Credentials go into headers, which hold printable ASCII. */
const PRINTABLE = /^[\x21-\x7e]+$/

/** A credential as a provider's `api_key` may hold it: it opens for a provider of this name alone. */
export function sealCredential(keys: readonly Buffer[], provider: string, plain: string): string {
  return `${SEALED}${seal(keys, plain, contextOf(provider))}`
}

function contextOf(provider: string): SealContext {
  return { purpose: 'provider-credential', workspace: provider }
}

/**
 * Follows a reference, `${ENV_NAME}`, `file:<path>` or `sealed:<text>`. White space around the secret does not count.
 *
 * @param provider whose `api_key` it is
 */
export function resolveSecret(
  reference: string,
  provider: string,
  { env, readSecret, open }: SecretSources,
): Secret {
  const variable = VARIABLE.exec(reference)?.[1]
  if (variable !== undefined) {
    const value = env[variable]?.trim()
    if (value === undefined || value === '')
      return { fault: `the environment variable ${variable} is not set` }
    return checked(value, `the environment variable ${variable}`)
  }
  if (reference.startsWith(SEALED)) {
    const value = open(reference.slice(SEALED.length), contextOf(provider))
    return value === null ? { fault: NOT_OPENED } : checked(value.trim(), 'what was sealed')
  }
  if (!reference.startsWith(FILE) || reference.length === FILE.length) return { fault: NOT_A_REFERENCE }
  const path = reference.slice(FILE.length)
  try {
    return checked(readSecret(path).trim(), `the file ${path}`)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable'
    return { fault: `the file ${path} cannot be read (${code})` }
  }
}

function checked(value: string, source: string): Secret {
  return PRINTABLE.test(value)
    ? { value }
    : { fault: `${source} holds no credential: one is printable ASCII` }
}
