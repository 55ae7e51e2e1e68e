import type {
  Redaction,
  TranscriptionCall,
  TranscriptionOptions,
  TranscriptionResult,
} from '../../../contracts/calls.ts'
import type { Operation, Step, Target, Unsupported } from '../../../contracts/provider.ts'
import type { UpstreamReply } from '../../../contracts/upstream.ts'
import { readEnding } from '../answer.ts'
import { unusable } from '../failure.ts'
import { encodeAudioForm, type FormField } from '../form.ts'
import { type LanguageHint, languageHint } from '../language.ts'
import { wantsSegments, wantsSpeakers, wantsWords, wholeTranscript } from '../transcript-needs.ts'
import { lackedFeatures, unsent, unsupportedField } from '../unsupported.ts'
import { readTranscripts } from './transcript.ts'
import { elevenlabsHeaders, unlogged } from './wire.ts'

/** Groups of entities that go by the same name there; it has none for numbers of every kind. */
const REDACTABLE: ReadonlySet<Redaction> = new Set(['pii', 'phi', 'pci'])

/** The first generation takes neither keyterms nor entities. */
const FIRST_GENERATION = 'scribe_v1'

const SEED_MAX = 2_147_483_647

/** `POST /v1/speech-to-text`, https://elevenlabs.io/docs/api-reference/speech-to-text/convert */
export const transcription: Operation<TranscriptionCall, TranscriptionResult> = {
  takesSeed: true,
  tellsTimes: true,
  takesAudioUrl: true,
  // A form without its end is no request; the price is for the hours that were transcribed.
  billsWholeBody: {
    source:
      'https://elevenlabs.io/docs/api-reference/speech-to-text/convert; https://elevenlabs.io/pricing/api',
    asOf: '2026-11-21',
  },
  unsupported,

  start(call, target): Step<TranscriptionResult> {
    const issue = unsupported(call, target)
    if (issue !== null) return unsent(issue)
    const { audio, options } = call
    const query = new URLSearchParams(unlogged(target))
    const url = `${target.baseUrl}/v1/speech-to-text${query.size > 0 ? `?${query}` : ''}`
    const fields = formFields(options, target.model)
    const form = encodeAudioForm(url, fields, audio, { field: 'source_url', url: target.audioUrl })
    const headers = {
      accept: 'application/json',
      ...elevenlabsHeaders(target),
      'content-type': form.contentType,
    }
    return { kind: 'send', request: { method: 'POST', url, headers, body: form.body }, state: null }
  },

  next: (_state, reply, call) => decodeReply(reply, call),
}

function formFields(options: TranscriptionOptions, model: string): FormField[] {
  const { keyterms, redaction, seed, multichannel, audio_events: tagged = false } = options
  const fields: FormField[] = [
    ['model_id', model],
    ['timestamps_granularity', granularityOf(options)],
    // Without it "(laughter)" would be in the text, which is to hold only what was said.
    ['tag_audio_events', String(tagged)],
  ]
  const { language } = hintOf(options)
  if (language !== null) fields.push(['language_code', language])
  if (multichannel) {
    // Each channel is taken for one speaker; `diarize` and `num_speakers` are refused beside it.
    fields.push(['use_multi_channel', 'true'], ['multichannel_output_style', 'separate'])
  } else if (wantsSpeakers(options)) {
    fields.push(['diarize', 'true'])
    if (options.speaker_count_hint !== null) fields.push(['num_speakers', String(options.speaker_count_hint)])
  }
  for (const term of keyterms) fields.push(['keyterms', term])
  for (const group of redaction) fields.push(['entity_detection', group])
  for (const group of redaction) fields.push(['entity_redaction', group])
  if (seed !== null) fields.push(['seed', String(seed)])
  return fields
}

/** Segments and speakers are made of words. */
function granularityOf(options: TranscriptionOptions): string {
  if (options.character_times === true) return 'character'
  return needsWords(options) ? 'word' : 'none'
}

/** ISO 639-1 and 639-3. */
function hintOf(options: TranscriptionOptions): LanguageHint {
  return languageHint(options, (code) => code)
}

function needsWords(options: TranscriptionOptions): boolean {
  return wantsWords(options) || wantsSegments(options) || wantsSpeakers(options) || options.multichannel
}

function unsupported({ options }: TranscriptionCall, { model }: Target): Unsupported | null {
  const { redaction, keyterms, mode, seed } = options
  const first = model === FIRST_GENERATION
  const unknown = redaction.filter((group) => !REDACTABLE.has(group))
  const lacked = lackedFeatures(
    [
      first && keyterms.length > 0 && 'keyterms',
      ((first && redaction.length > 0) || unknown.length > 0) && 'redaction',
      mode === 'realtime' && 'realtime',
    ],
    first ? {} : { redactions: unknown },
  )
  if (lacked !== null) return lacked
  if (seed === null || (seed >= 0 && seed <= SEED_MAX)) return null
  return unsupportedField('seed', `the provider takes 0 to ${SEED_MAX}`)
}

function decodeReply(reply: UpstreamReply, { audio, options }: TranscriptionCall): Step<TranscriptionResult> {
  return readEnding(reply, (body) => {
    const read = readTranscripts(body, options, hintOf(options).warnings)
    // The provider answers for mono audio as if no channels had been asked for.
    const merged = options.multichannel && body.transcripts === undefined && (audio.channels ?? 1) > 1
    if (read !== null && merged) return unusable(reply, 'the answer lacks the channels that were asked for')
    return wholeTranscript(read, options, reply)
  })
}
