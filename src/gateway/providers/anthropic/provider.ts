import type { Provider } from '../../../contracts/provider.ts'
import { completionByChat } from '../completion.ts'
import { idsIn, objectOf } from '../json.ts'
import { modelList } from '../model-list.ts'
import { ANTHROPIC_OPTIONS, messagesOperation, requestHeaders } from './chat.ts'

const chat = messagesOperation()

/** One page holds up to 1,000. */
const models = modelList({
  path: '/v1/models?limit=1000',
  headers: requestHeaders,
  names: (reply) => idsIn(objectOf(reply)?.data),
})

/** https://platform.claude.com/docs/en/api/overview. It hears and speaks nothing, and takes no seed. */
export const anthropic: Provider = {
  kind: 'anthropic',
  baseUrl: 'https://api.anthropic.com',
  needsCredential: true,
  optionsSchema: ANTHROPIC_OPTIONS,
  chat,
  complete: completionByChat(chat),
  models,
}
