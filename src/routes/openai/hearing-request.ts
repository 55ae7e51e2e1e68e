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
import { chosenBy, ignoredWarnings, MODEL_FIELD, refusedField } from './request.ts'

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
  chunking_strategy: optional(
    Type.String(),
    '`auto` is passed on to models that take it; any other strategy is not',
  ),
  temperature: optional(Type.Number(), 'taken, and not passed on'),
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
  const chunking = chunkingIn(fields)
  const own = withoutFields(fields, [...NAMES, ...NESTED_CHUNKING])
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
      ...(chunking.auto ? { chunking_strategy: 'auto' } : {}),
    },
    stream,
    selectors: chosenBy(model, selectors, principal),
    warnings: [
      ...warnings,
      ...(several ? ['languages: more than one cannot be passed on'] : []),
      ...chunking.warnings,
      ...ignoredWarnings(['temperature'], sentIn(fields)),
    ],
  }
}

/** Members of a strategy as OpenAI's clients write them into a form. */
const NESTED_CHUNKING = ['type', 'threshold', 'prefix_padding_ms', 'silence_duration_ms'].map(
  (member) => `chunking_strategy[${member}]`,
)

/** What was sent, by its name; of a form the first value of each field. */
function sentIn(fields: Fields): Readonly<Record<string, unknown>> {
  if (fields.kind === 'json') return fields.value
  return Object.fromEntries([...fields.values].map(([name, [first]]) => [name, first === '' ? null : first]))
}

function chunkingIn(fields: Fields): { readonly auto: boolean; readonly warnings: readonly string[] } {
  const sent = sentIn(fields)
  const strategy = sent.chunking_strategy ?? NESTED_CHUNKING.map((name) => sent[name]).find(Boolean) ?? null
  const auto = strategy === 'auto'
  return { auto, warnings: strategy === null || auto ? [] : ['chunking_strategy: only auto is passed on'] }
}

/** OpenAI's name of the part that the gateway calls `audio`; other forms of a body are not OpenAI's. */
export function namingFile(thrown: unknown, { headers }: Pick<Exchange, 'headers'>): unknown {
  const isForm = /^multipart\//i.test(headers['content-type']?.trim() ?? '')
  if (!isForm || !(thrown instanceof GatewayError) || thrown.extra.param !== 'audio') return thrown
  return new GatewayError(thrown.code, thrown.message, { ...thrown.extra, param: 'file' })
}
