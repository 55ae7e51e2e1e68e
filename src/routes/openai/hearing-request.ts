import { Type } from 'typebox'
import { GatewayError } from '../../errors.ts'
import type { Exchange } from '../../inbound/exchange.ts'
import { FieldReader, type Fields, withoutFields } from '../../inbound/form.ts'
import { invalidField, MUST } from '../../inbound/refusals.ts'
import type { Principal } from '../../schema/catalog.ts'
import { optional } from '../json-request.ts'
import type { Hearing } from '../transcription.ts'
import { readTranscriptionRequest, type TranscriptionRequest } from '../transcription-request.ts'
import { typedFields } from '../typed-fields.ts'
import { chosenBy, MODEL_FIELD, refusedField } from './request.ts'

/** What OpenAI's transcriptions and translations are asked for beyond the gateway's own fields. */
export const OPENAI_HEARING_FIELDS = {
  model: MODEL_FIELD,
  keywords: optional(
    Type.Array(Type.String({ maxLength: 256 }), { maxItems: 1_000 }),
    'words to listen for, none of them empty; required of the model',
  ),
  languages: optional(
    Type.Array(Type.String({ maxLength: 35 }), { maxItems: 32 }),
    'of the speech, a hint; only a single one is passed on',
  ),
  include: refusedField('probabilities of tokens are not told'),
  known_speaker_names: refusedField('speakers are told apart, not known'),
  known_speaker_references: refusedField('speakers are told apart, not known'),
}

const NAMES = Object.keys(OPENAI_HEARING_FIELDS)
const read = typedFields(OPENAI_HEARING_FIELDS)

/** Formats whose answer the events of a stream have a place for. */
const STREAMED_FORMATS: ReadonlySet<string> = new Set(['json', 'text', 'diarized_json'])

/**
 * A transcription or translation in OpenAI's words: its fields are read and taken away, `model` before route-control
 * fields are looked for, and the rest is read as the gateway's own, which has the same names for the same things.
 *
 * @throws GatewayError as `readTranscriptionRequest`
 */
export function readOpenAiHearing(
  exchange: Exchange,
  fields: Fields,
  { task, offers }: Hearing,
  principal: Principal,
): TranscriptionRequest {
  const reader = new FieldReader(fields)
  for (const name of ['include', 'known_speaker_names', 'known_speaker_references'] as const)
    read(reader, name)
  const model = read(reader, 'model') ?? null
  const keywords = read(reader, 'keywords') ?? []
  if (keywords.some((term) => term.trim() === '')) throw invalidField('keywords', 'must hold no empty term')
  const languages = read(reader, 'languages') ?? []
  const own = withoutFields(fields, NAMES)
  const { options, stream, selectors, warnings } = readTranscriptionRequest(exchange, own, task, offers)
  if (stream && !STREAMED_FORMATS.has(options.response_format)) {
    throw invalidField(
      'response_format',
      `${MUST.beOneOf([...STREAMED_FORMATS])} where the answer is streamed`,
    )
  }
  if (languages.length > 0 && options.language !== null) {
    throw invalidField('languages', MUST.beLeftOut('send either `language` or `languages`'))
  }
  const [language = null] = languages
  const several = languages.length > 1
  return {
    options: {
      ...options,
      language: options.language ?? (several ? null : language),
      keyterms: [...new Set([...options.keyterms, ...keywords])],
    },
    stream,
    selectors: chosenBy(model, selectors, principal),
    warnings: several ? [...warnings, 'languages: more than one cannot be passed on'] : warnings,
  }
}

/** OpenAI's name of the part that the gateway calls `audio`; other forms of a body are not OpenAI's. */
export function namingFile(thrown: unknown, { headers }: Pick<Exchange, 'headers'>): unknown {
  const isForm = /^multipart\//i.test(headers['content-type']?.trim() ?? '')
  if (!isForm || !(thrown instanceof GatewayError) || thrown.extra.param !== 'audio') return thrown
  return new GatewayError(thrown.code, thrown.message, { ...thrown.extra, param: 'file' })
}
