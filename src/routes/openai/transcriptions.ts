import type { Handle } from '../endpoint.ts'
import { type Hearing, receiveAndTranscribe } from '../transcription.ts'
import { namingFile } from './hearing-request.ts'
import { hearingShape } from './transcript-shape.ts'

const TRANSCRIPTION: Hearing = {
  task: 'transcription',
  offers: { stream: true, jobs: false },
  shape: hearingShape('transcription'),
}
const TRANSLATION: Hearing = {
  task: 'translation',
  offers: { stream: false, jobs: false },
  shape: hearingShape('translation'),
}

/** POST /openai/v1/audio/transcriptions */
export const audioTranscriptions = hearing(TRANSCRIPTION)

/** POST /openai/v1/audio/translations */
export const audioTranslations = hearing(TRANSLATION)

function hearing(asked: Hearing): Handle {
  return async (exchange, trail, doors) => {
    try {
      return await receiveAndTranscribe(asked, exchange, trail, doors)
    } catch (thrown) {
      throw namingFile(thrown, exchange)
    }
  }
}
