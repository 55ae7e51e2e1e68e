import { hash, randomBytes } from 'node:crypto'
import type { AudioFormat, AudioRef } from '../../contracts/audio.ts'
import type { Piece } from '../../contracts/upstream.ts'

/** A text field of a form. Names are ours; values may hold anything. */
export type FormField = readonly [name: string, value: string]

/** The audio of a call as a file of a form. */
export interface FormFile {
  readonly name: string
  readonly audio: AudioRef & { readonly format: AudioFormat }
}

/**
 * Keys the boundary. A boundary that a caller could foretell could be put into the audio, and what follows it
 * would be read as fields of ours, another model for instance. Made once per process, so encoding a call
 * twice gives equal bytes.
 */
const BOUNDARY_KEY = randomBytes(32).toString('hex')

/** Extensions that providers know a format by; the first is given to a file that has none of them. */
const EXTENSIONS: Readonly<Record<AudioFormat, readonly [string, ...string[]]>> = {
  mp3: ['mp3', 'mpga', 'mpeg'],
  mp4: ['mp4', 'm4a'],
  mpeg: ['mpeg', 'mpg'],
  wav: ['wav'],
  webm: ['webm'],
  ogg: ['ogg', 'oga'],
  flac: ['flac'],
  other: ['bin'],
}

/** Names of the formats on the wire. */
export const FILE_MEDIA_TYPES: Readonly<Record<AudioFormat, string>> = {
  mp3: 'audio/mpeg',
  mp4: 'audio/mp4',
  mpeg: 'video/mpeg',
  wav: 'audio/wav',
  webm: 'audio/webm',
  ogg: 'audio/ogg',
  flac: 'audio/flac',
  other: 'application/octet-stream',
}

/** Longest file name that is passed on, before its extension, UTF-16 units. */
const STEM_MAX_LENGTH = 100

/**
 * A multipart/form-data body (RFC 7578), written by hand: the audio stays a piece that each attempt reads again.
 *
 * @param scope what the form is for, e.g. its URL: forms of one scope and equal content have equal boundaries
 */
export function encodeForm(
  scope: string,
  fields: readonly FormField[],
  file: FormFile | null,
): { readonly contentType: string; readonly body: readonly Piece[] } {
  const filename = file === null ? '' : safeFilename(file.audio.filename, file.audio.format)
  const boundary = boundaryOf(scope, fields, filename, file?.audio.decodedBytes ?? 0)
  const contentType = `multipart/form-data; boundary=${boundary}`
  let head = ''
  for (const [name, value] of fields)
    head += `--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
  if (file === null) return { contentType, body: [Buffer.from(`${head}--${boundary}--\r\n`)] }
  head += `--${boundary}\r\ncontent-disposition: form-data; name="${file.name}"; filename="${filename}"\r\n`
  head += `content-type: ${FILE_MEDIA_TYPES[file.audio.format]}\r\n\r\n`
  return {
    contentType,
    body: [Buffer.from(head), { audio: file.audio, as: 'bytes' }, Buffer.from(`\r\n--${boundary}--\r\n`)],
  }
}

/** A form with audio: as a file, or in a field with its URL where there is one, which the provider fetches. */
export function encodeAudioForm(
  scope: string,
  fields: readonly FormField[],
  audio: FormFile['audio'],
  pulled: { readonly field: string; readonly url: string | undefined },
): ReturnType<typeof encodeForm> {
  if (pulled.url === undefined) return encodeForm(scope, fields, { name: 'file', audio })
  return encodeForm(scope, [...fields, [pulled.field, pulled.url]], null)
}

/**
 * The caller's file name without folders and control characters, with an extension that fits the audio (providers
 * tell the format by it), in the encoding of a form: a quote is `%22`, nothing else is escaped
 * (https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#multipart-form-data).
 * `audio.<extension>` when nothing is left.
 */
export function safeFilename(given: string | null, format: AudioFormat): string {
  const base = (given ?? '').split(/[/\\]/).at(-1) ?? ''
  const clean = base
    .toWellFormed()
    .replaceAll(/[\p{C}\ufffd]/gu, '')
    .trim()
  const [, stem = clean, extension = ''] = /^(.*)\.([a-z0-9]{1,5})$/i.exec(clean) ?? []
  const known = EXTENSIONS[format]
  const fitting = known.find((candidate) => candidate === extension.toLowerCase()) ?? known[0]
  const kept = stem
    .replace(/^\.+/, '')
    .slice(0, STEM_MAX_LENGTH)
    .toWellFormed()
    .replaceAll('\ufffd', '')
    .trim()
  return `${kept === '' ? 'audio' : kept}.${fitting}`.replaceAll('"', '%22')
}

/** 128 bits that no outsider can foretell; within RFC 2046's 70 characters. */
function boundaryOf(scope: string, fields: readonly FormField[], filename: string, bytes: number): string {
  const content = JSON.stringify([scope, fields, filename, bytes])
  return `larkway-${hash('sha256', BOUNDARY_KEY + content).slice(0, 32)}`
}
