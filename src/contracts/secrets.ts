import { randomBytes } from 'node:crypto'
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

const OWNER_ONLY = 0o600
const KEY_BYTES = 32
const KEY_FILE = 'secret-key'

/**
 * The text of a file that only its owner may read, made at the first time. Two processes that come at once get the
 * same.
 *
 * @param make what the file is to hold when there is none
 */
export async function keptText(path: string, make: () => string): Promise<string> {
  const kept = await readText(path)
  if (kept !== null) return kept
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  await writeFile(draft, `${make()}\n`, { mode: OWNER_ONLY, flag: 'wx' })
  try {
    // A link appears with its whole content, and fails where another process was first.
    await link(draft, path)
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
  } finally {
    await rm(draft, { force: true })
  }
  return (await readText(path)) ?? ''
}

/**
 * The keys that sign and encrypt what leaves this process: the first one makes, all of them verify, so that a key
 * can be replaced. Without any given, one of the data folder's own.
 *
 * @param given comma-separated base64, as `LARKWAY_SECRET_KEYS` holds it
 * @throws Error that says what is wrong, never with a part of a key
 */
export async function readSecretKeys(
  given: string | undefined,
  dataFolder: string,
): Promise<readonly Buffer[]> {
  if (given !== undefined) return secretKeysIn(given)
  const path = join(dataFolder, KEY_FILE)
  return secretKeysIn(await keptText(path, makeSecretKey), path)
}

/** The same for who only opens: none where the data folder has no key yet. */
export async function findSecretKeys(
  given: string | undefined,
  dataFolder: string,
): Promise<readonly Buffer[]> {
  const isThere = given !== undefined || (await readText(join(dataFolder, KEY_FILE))) !== null
  return isThere ? readSecretKeys(given, dataFolder) : []
}

/** A new key, in base64. */
export function makeSecretKey(): string {
  return randomBytes(KEY_BYTES).toString('base64')
}

/** The keys of a list. @throws Error that names its source and says what is wrong, never with a part of a key */
export function secretKeysIn(text: string, source = 'LARKWAY_SECRET_KEYS'): readonly Buffer[] {
  return text.split(',').map((one) => decodedKey(one, source))
}

function decodedKey(text: string, source: string): Buffer {
  const key = Buffer.from(text.trim(), 'base64')
  if (key.length === KEY_BYTES) return key
  throw new Error(`${source} must hold ${KEY_BYTES} bytes in base64 for each key`)
}

async function readText(path: string): Promise<string | null> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    throw error
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
