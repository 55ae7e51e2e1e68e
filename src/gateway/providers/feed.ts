import { createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { canonicalJson } from '../../contracts/json.ts'
import type { ModelsInForce, ModelTable, StoredModels } from '../../contracts/models.ts'
import { type ModelsDocument, readModels, SHIPPED } from './facts.ts'

/** Largest document that is read. The one of the program has 120 KB. */
export const DOCUMENT_BYTES_MAX = 4 * 1024 * 1024

/**
 * The keys that documents are trusted by. The program brings none: an operator names those of the signer it trusts.
 *
 * @param setting `LARKWAY_MODELS_KEYS`: Ed25519 public keys as base64 of 32 bytes, with commas between them
 * @throws Error if one of them is not such a key
 */
export function modelKeys(setting: string | undefined): KeyObject[] {
  return (setting?.split(',') ?? []).map((text) => {
    const bytes = Buffer.from(text, 'base64url')
    if (!/^[A-Za-z0-9_-]{43}=?$/.test(text.replaceAll('+', '-').replaceAll('/', '_')) || bytes.length !== 32)
      throw new Error('a key of model facts must be base64 of the 32 bytes of an Ed25519 public key')
    return createPublicKey({
      key: { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') },
      format: 'jwk',
    })
  })
}

/** The document with its signature, over the canonical JSON of all the rest. */
export function signModels(document: ModelsDocument, privateKey: KeyObject): object {
  return {
    ...document,
    signature: sign(null, Buffer.from(canonicalJson(document)), privateKey).toString('base64'),
  }
}

/**
 * Reads a signed document from outside.
 *
 * @throws Error whose message is a sentence about the document
 */
export function readFeed(text: string, keys: readonly KeyObject[]): ModelTable {
  if (Buffer.byteLength(text) > DOCUMENT_BYTES_MAX)
    throw new Error(`it is larger than ${DOCUMENT_BYTES_MAX / 1024 / 1024} MiB`)
  if (keys.length === 0)
    throw new Error(
      'LARKWAY_MODELS_KEYS is not set; set it to the public key of the signer, here and on every server',
    )
  const { signature, ...document } = objectIn(text)
  if (typeof signature !== 'string') throw new Error('it has no signature')
  const signed = Buffer.from(canonicalJson(document))
  if (!keys.some((key) => verify(null, signed, key, Buffer.from(signature, 'base64'))))
    throw new Error(
      'its signature is not by a key that is trusted here, or it was changed after it was signed',
    )
  try {
    return readModels(document)
  } catch (error) {
    const { message } = error as Error
    throw new Error(`it holds what this version of Larkway cannot read: ${message}`, { cause: error })
  }
}

function objectIn(text: string): Readonly<Record<string, unknown>> {
  let value: unknown = null
  try {
    value = JSON.parse(text)
  } catch {}
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>
  throw new Error('it is not a JSON object')
}

/** A program that is newer than a stored document, and than the one that it was put in place of, brings its own. */
export function modelsInForce(stored: StoredModels | null, keys: readonly KeyObject[]): ModelsInForce {
  if (stored === null) return { table: SHIPPED, refused: null }
  try {
    const table = readFeed(stored.text, keys)
    const isOutdated = stored.over < SHIPPED.issuedAt && table.issuedAt < SHIPPED.issuedAt
    return { table: isOutdated ? SHIPPED : table, refused: null }
  } catch (error) {
    return { table: SHIPPED, refused: (error as Error).message }
  }
}
