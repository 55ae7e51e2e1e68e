import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { GatewayError } from '../../../contracts/errors.ts'
import { isUploadId } from '../../../contracts/uploads.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { invalid } from '../../edge/refusals.ts'
import type { UploadTerms } from '../../long/uploads.ts'

/*
 * The headers of tus 1.0.0 (https://tus.io/protocols/resumable-upload), with the extensions that `TUS_EXTENSIONS`
 * names. Whatever a client says is checked here.
 */

export const TUS_VERSION = '1.0.0'
const TUS_EXTENSIONS = 'creation,creation-with-upload,expiration,checksum,termination,concatenation'
export const UPLOAD_TYPE = 'application/offset+octet-stream'
/** Longest `Upload-Metadata`: two kilobytes of text, and their base64. */
const METADATA_LENGTH_MAX = 4_096
/** Parts of a final upload: each is listed when it is used. */
const PARTS_MAX = 100
const LENGTH = /^\d{1,15}$/
/** Keys are ASCII without spaces and commas, each once; values are base64, or left out. */
const METADATA = /^[!-+\--~]+(?: [A-Za-z0-9+/]*={0,2})?$/
const CHECKSUM = /^([a-z0-9]+) ([A-Za-z0-9+/]+={0,2})$/

interface Digest {
  update(bytes: Uint8Array): void
  digest(): Buffer
}

const ALGORITHMS: Readonly<Record<string, () => Digest>> = {
  sha1: () => nodeHash('sha1'),
  sha256: () => nodeHash('sha256'),
  md5: () => nodeHash('md5'),
  crc32: () => {
    let sum = 0
    return {
      update: (bytes) => {
        sum = crc32(bytes, sum)
      },
      digest: () => {
        const bytes = Buffer.alloc(4)
        bytes.writeUInt32BE(sum)
        return bytes
      },
    }
  },
}

function nodeHash(name: string): Digest {
  const hash = createHash(name)
  return { update: (bytes) => void hash.update(bytes), digest: () => hash.digest() }
}

export const TUS_ABILITIES = {
  'tus-resumable': TUS_VERSION,
  'tus-version': TUS_VERSION,
  'tus-extension': TUS_EXTENSIONS,
  'tus-checksum-algorithm': Object.keys(ALGORITHMS).join(','),
} as const

type Headers = Pick<Exchange, 'headers'>

/** @throws GatewayError PRECONDITION_FAILED */
export function checkVersion({ headers }: Headers): void {
  if (headers['tus-resumable'] === TUS_VERSION) return
  throw new GatewayError('PRECONDITION_FAILED', `send Tus-Resumable: ${TUS_VERSION}`, {
    headers: { 'tus-version': TUS_VERSION },
  })
}

/**
 * Reads what a creation says of the upload.
 *
 * @returns of a final one the length is 0: that is its parts'
 * @throws GatewayError INVALID_REQUEST
 */
export function readTerms({ headers }: Headers): UploadTerms {
  const metadata = readMetadata(headers['upload-metadata'] ?? '')
  const concat = readConcat(headers['upload-concat'])
  if (headers['upload-defer-length'] !== undefined)
    throw invalid('send Upload-Length: an upload has to be told its length first', 'Upload-Defer-Length')
  const sent = headers['upload-length']
  if (typeof concat === 'object') {
    if (sent !== undefined) throw invalid('a final upload is as long as its parts', 'Upload-Length')
    return { length: 0, metadata, concat }
  }
  const length = readNumber('Upload-Length', sent)
  if (length === 0) throw invalid('an upload has a byte at least', 'Upload-Length')
  return { length, metadata, ...(concat === undefined ? {} : { concat }) }
}

/** @throws GatewayError INVALID_REQUEST */
export function readOffset({ headers }: Headers): number {
  return readNumber('Upload-Offset', headers['upload-offset'])
}

/** Looks at the bytes of a body that came with a checksum. */
export interface ChecksumCheck {
  update(bytes: Uint8Array): void
  /** @throws GatewayError CHECKSUM_MISMATCH */
  verify(): void
}

/** @returns null: none was sent. @throws GatewayError INVALID_REQUEST */
export function readChecksum({ headers }: Headers): ChecksumCheck | null {
  const sent = headers['upload-checksum']
  if (sent === undefined) return null
  const [, name = '', expected = ''] = CHECKSUM.exec(sent) ?? []
  if (!Object.hasOwn(ALGORITHMS, name)) {
    const names = Object.keys(ALGORITHMS).join(', ')
    throw invalid(`a checksum is one of ${names}, a space, and base64`, 'Upload-Checksum')
  }
  const hash = ALGORITHMS[name]!()
  return {
    update: (bytes) => hash.update(bytes),
    verify() {
      if (!hash.digest().equals(Buffer.from(expected, 'base64'))) throw new GatewayError('CHECKSUM_MISMATCH')
    },
  }
}

/** The header that says which part of a concatenation an upload is; undefined: none. */
export function concatHeader(
  concat: UploadTerms['concat'],
  pathOf: (id: string) => string,
): string | undefined {
  return typeof concat === 'object' ? `final;${concat.parts.map(pathOf).join(' ')}` : concat
}

function readNumber(name: string, sent: string | undefined): number {
  if (sent === undefined || !LENGTH.test(sent)) throw invalid(`send ${name}: a whole number of bytes`, name)
  return Number(sent)
}

function readMetadata(sent: string): string {
  const pairs = sent === '' ? [] : sent.split(',').map((pair) => pair.trim())
  const keys = new Set(pairs.map((pair) => pair.split(' ')[0]))
  if (
    sent.length > METADATA_LENGTH_MAX ||
    keys.size < pairs.length ||
    !pairs.every((pair) => METADATA.test(pair))
  )
    throw invalid(
      `Upload-Metadata has pairs of a key and base64, each key once, in ${METADATA_LENGTH_MAX} characters`,
      'Upload-Metadata',
    )
  return pairs.join(',')
}

function readConcat(sent: string | undefined): UploadTerms['concat'] {
  if (sent === undefined || sent === 'partial') return sent
  const [kind, list = ''] = sent.split(';', 2)
  // As absolute URLs, or as paths.
  const parts = list.split(' ').map((url) => url.slice(url.lastIndexOf('/') + 1))
  if (kind === 'final' && parts.every(isUploadId) && parts.length <= PARTS_MAX) return { parts }
  throw invalid(
    `Upload-Concat is partial, or final; with the URLs of 1 to ${PARTS_MAX} partial uploads, spaces between them`,
    'Upload-Concat',
  )
}
