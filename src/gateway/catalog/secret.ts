import { resealed, type SealContext, seal, unseal } from '../../contracts/sealing.ts'

/** Sources that references are resolved from. */
export interface SecretSources {
  readonly env: Readonly<Record<string, string | undefined>>
  /**
   * The text of a file; a relative path is one from the folder of the configuration.
   *
   * @throws Error when it cannot be read
   */
  readonly readSecret: (path: string) => string
  /** Opens a text that was sealed in this context; null when no key opens it. */
  readonly open: (sealed: string, context: SealContext) => string | null
  /**
   * The document is only read: the environment and the files of the servers may be elsewhere. A reference is then
   * judged by its form, and its value is made up.
   */
  readonly isUnread?: boolean
}

/** Reads no secret at all. */
export const WITHOUT_SECRETS: SecretSources = {
  env: {},
  readSecret: () => UNREAD,
  open: () => UNREAD,
  isUnread: true,
}
/** Stands for every secret that is not read. */
const UNREAD = 'not-read'

/** A secret, or why there is none. `issue` never holds a part of a value. */
export type Secret =
  | { readonly value: string; readonly issue?: never }
  | { readonly issue: string; readonly value?: never }

const VARIABLE = /^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$/
const FILE = 'file:'
const SEALED = 'sealed:'
const NOT_A_REFERENCE = `must be \${ENV_NAME} or file:<path>: a secret itself is never written here`
const NOT_OPENED = 'must be sealed again for this provider: no key in LARKWAY_SECRET_KEYS opens it'
/** Credentials go into headers, which hold printable ASCII. */
const PRINTABLE = /^[\x21-\x7e]+$/

/** Whether an `api_key` is a sealed credential, and neither a reference nor absent. */
export function isSealed(apiKey: unknown): apiKey is string {
  return typeof apiKey === 'string' && apiKey.startsWith(SEALED)
}

/** A credential as a provider's `api_key` may hold it: it opens for a provider of this name alone. */
export function sealCredential(keys: readonly Buffer[], provider: string, plain: string): string {
  return `${SEALED}${seal(keys, plain, sealContext(provider))}`
}

/** Whether an `api_key` is this very credential, sealed for the provider with the key that seals now. */
export function opensTo(keys: readonly Buffer[], provider: string, apiKey: string, plain: string): boolean {
  if (!isSealed(apiKey)) return false
  return unseal(keys.slice(0, 1), apiKey.slice(SEALED.length), sealContext(provider)) === plain
}

/** The same credential under the key that seals now; as it is where that has sealed it, null where none opens it. */
export function resealedCredential(keys: readonly Buffer[], provider: string, apiKey: string): string | null {
  const sealed = resealed(keys, apiKey.slice(SEALED.length), sealContext(provider))
  return sealed === null ? null : SEALED + sealed
}

function sealContext(provider: string): SealContext {
  return { purpose: 'provider-credential', workspace: provider }
}

/**
 * Follows a reference, `${ENV_NAME}`, `file:<path>` or `sealed:<text>`. White space around the secret does not count.
 *
 * @param provider whose `api_key` it is
 * @param judge why a value cannot be used, beside that it has to be printable ASCII; null: it can. Never called for a
 *   secret that is not read
 */
export function resolveSecret(
  reference: string,
  provider: string,
  sources: SecretSources,
  judge: (value: string) => string | null = () => null,
): Secret {
  const secret = followed(reference, provider, sources)
  if (secret.issue !== undefined || sources.isUnread === true) return secret
  const issue = judge(secret.value)
  return issue === null ? secret : { issue }
}

function followed(
  reference: string,
  provider: string,
  { env, readSecret, open, isUnread }: SecretSources,
): Secret {
  const variable = VARIABLE.exec(reference)?.[1]
  if (variable !== undefined) {
    const value = isUnread === true ? UNREAD : env[variable]?.trim()
    if (value === undefined || value === '')
      return { issue: `the environment variable ${variable} is not set` }
    return checked(value, `the environment variable ${variable}`)
  }
  if (reference.startsWith(SEALED)) {
    const value = open(reference.slice(SEALED.length), sealContext(provider))
    return value === null ? { issue: NOT_OPENED } : checked(value.trim(), 'the sealed text')
  }
  if (!reference.startsWith(FILE) || reference.length === FILE.length) return { issue: NOT_A_REFERENCE }
  const path = reference.slice(FILE.length)
  try {
    return checked(readSecret(path).trim(), `the file ${path}`)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable'
    return { issue: `the file ${path} cannot be read (${code})` }
  }
}

function checked(value: string, source: string): Secret {
  return PRINTABLE.test(value)
    ? { value }
    : { issue: `${source} must hold a credential of printable ASCII characters` }
}
