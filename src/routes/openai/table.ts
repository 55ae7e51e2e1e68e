import { GatewayError } from '../../errors.ts'
import type { EdgeRoute } from '../../inbound/server.ts'
import { type Doors, type EndpointOptions, endpoint, type Handle } from '../endpoint.ts'
import { chatCompletions } from './chat-completions.ts'
import { completions } from './completions.ts'
import { openaiEmbeddings } from './embeddings.ts'
import { imagesGenerations } from './images.ts'
import { model, models } from './models.ts'
import { audioSpeech } from './speech.ts'
import { audioTranscriptions, audioTranslations } from './transcriptions.ts'

/** The paths for clients of OpenAI's, which are told `/openai/v1` as their base URL and nothing else. */
export function openaiRoutes(doors: Doors): EdgeRoute[] {
  return [
    at('POST', '/audio/transcriptions', audioTranscriptions, { idempotent: true }),
    at('POST', '/audio/translations', audioTranslations, { idempotent: true }),
    at('POST', '/audio/speech', audioSpeech),
    at('POST', '/chat/completions', chatCompletions),
    at('POST', '/completions', completions),
    at('POST', '/embeddings', openaiEmbeddings),
    at('POST', '/images/generations', imagesGenerations),
    at('GET', '/models', models),
    at('GET', '/models/:model', model),
  ]

  function at(method: EdgeRoute['method'], path: string, handle: Handle, options: EndpointOptions = {}) {
    return endpoint(doors, method, `/openai/v1${path}`, naming(handle), options)
  }
}

/** The clients read the id of a request in a header of this name, and look for a field by the name they sent. */
function naming(handle: Handle): Handle {
  return async (exchange, trail, doors) => {
    trail.headers['x-request-id'] = exchange.requestId
    try {
      return await handle(exchange, trail, doors)
    } catch (thrown) {
      throw inOpenAiNames(thrown)
    }
  }
}

/** The one field of a chat that goes by another name here, and that is refused further in. */
function inOpenAiNames(thrown: unknown): unknown {
  if (!(thrown instanceof GatewayError) || thrown.extra.param !== 'response_schema') return thrown
  const message = thrown.message.replace(/^response_schema:/, 'response_format:')
  return new GatewayError(thrown.code, message, { ...thrown.extra, param: 'response_format' })
}
