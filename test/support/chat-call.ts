import type { ChatCall, ChatMessage, ChatPart, CompleteCall, Tool } from '../../src/contracts/chat.ts'

const SAMPLING = { max_tokens: null, temperature: null, top_p: null, stop: [], seed: null }

export const say = (text: string): ChatPart => ({ type: 'text', text })
export const user = (...parts: ChatPart[]): ChatMessage => ({ role: 'user', parts })

export const WEATHER: Tool = {
  name: 'get_weather',
  description: 'Current weather',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}

export function chatCall(overrides: Partial<ChatCall> = {}): ChatCall {
  return {
    ...SAMPLING,
    messages: [user(say('Hello'))],
    tools: [],
    tool_choice: null,
    modalities: ['text'],
    audio: null,
    response_schema: null,
    ...overrides,
  }
}

export function completeCall(overrides: Partial<CompleteCall> = {}): CompleteCall {
  return { ...SAMPLING, prompt: 'Once upon a time', ...overrides }
}
