import { Type } from 'typebox'
import type { CallbackForm } from '../../webhooks/callbacks.ts'
import { callbackFailure, submissionHeaders } from '../callbacks.ts'
import { optionsParameter } from '../door-options.ts'
import { viewedTranscription } from '../door-transcription.ts'
import { endpoint } from '../endpoint.ts'
import { factHeaders, warningHeaders } from '../fact-headers.ts'
import { heardInJob, type KeptResult } from '../heard.ts'
import { jsonText } from '../json-reply.ts'
import { answerTranscription, transcriptionBody } from '../native/transcription.ts'
import { DeepgramAccepted, DeepgramTranscript } from '../openapi/deepgram-answers.ts'
import { TRANSCRIPT_FACTS } from '../openapi/headers.ts'
import { ANY_AUDIO, json, LEDGER_ERRORS, TRANSCRIPTION_ERRORS } from '../openapi/operation.ts'
import { DEEPGRAM, deepgramAnswer, vendorId } from './door.ts'
import { LISTEN_OPTIONS, readFileOptions } from './file-options.ts'
import { OPT_OUT } from './options.ts'
import { type ListenView, listenResponse } from './transcript.ts'

const LISTEN = viewedTranscription<ListenView>({
  door: DEEPGRAM.door,
  plain: {
    ...{ utterances: false, uttSplit: 0, paragraphs: false, detectsLanguage: false, multichannel: false },
    ...{ tags: [], extra: {} },
  },
  response: listenResponse,
  read: readFileOptions,
  submitted: (submitted, { warnings }, requestId) => ({
    status: 200,
    headers: { ...submissionHeaders(submitted), ...warningHeaders(warnings) },
    body: JSON.stringify({ request_id: vendorId(submitted.job?.requestId ?? requestId) }),
  }),
  flag: OPT_OUT,
  layout: { form: 'raw', urlFields: ['url'], missing: 'send the audio as the body, or JSON with its `url`' },
})

/**
 * The transcript itself, as the synchronous answer has it (https://developers.deepgram.com/docs/callback); for a failed
 * job, the refusal that the synchronous answer would have been.
 */
const CALLBACK: CallbackForm = {
  async render(job, result, view) {
    // Deepgram sends the id of the key that asked; receivers compare it.
    const token = { 'dg-token': job.keyId }
    if (result === null) return { headers: token, body: JSON.stringify(callbackFailure(job, DEEPGRAM.door)) }
    const kept = JSON.parse(result) as KeptResult
    const response = listenResponse(heardInJob(job, kept), view as ListenView)
    return { headers: { ...token, ...factHeaders(kept) }, body: await jsonText(response) }
  },
  isFinal: () => false,
}

const ANSWER = Type.Union([DeepgramTranscript, DeepgramAccepted], {
  title: 'DeepgramAnswer',
  description: 'the transcript, or with `callback` the ID of the request',
})

const ByUrl = Type.Object({
  url: Type.String({ format: 'uri', maxLength: 2_048, description: 'https, at an allowed host' }),
})

export const listenFile = endpoint({
  ...DEEPGRAM,
  method: 'POST',
  path: '/deepgram/v1/listen',
  kind: 'call',
  id: 'deepgramListenFile',
  summary: 'Transcribe audio',
  description:
    'The body is the audio, of any content type, or JSON with its URL; options are query parameters. ' +
    '`callback` turns the request into a durable job, for which the key needs the scope `jobs`.',
  idempotent: 'transcription',
  body: {
    ...transcriptionBody(LISTEN, {}),
    contents: [...ANY_AUDIO, json(ByUrl)],
    parameters: ['Purpose', optionsParameter(LISTEN_OPTIONS)],
  },
  answers: [deepgramAnswer([json(ANSWER)], ['X-LK-Idempotent-Replay', 'Location', ...TRANSCRIPT_FACTS])],
  errors: [...TRANSCRIPTION_ERRORS, ...LEDGER_ERRORS],
  callback: CALLBACK,
  handle: (request) => answerTranscription(LISTEN, request),
})
