import type { Capability } from '../schema/calls.ts'
import type { Entry, Principal, Route } from '../schema/catalog.ts'
import type { ChatCall, ChatPart } from '../schema/chat.ts'
import { CAPABILITY_OF, type Calls, type OperationName } from '../schema/operations.ts'

/**
 * What a model must be capable of to serve a call, from the general to the specific: what the endpoint needs whatever
 * its request holds, then, for a chat, what the request's content adds: tools, pictures, recordings, a spoken answer. A
 * chat with pictures and a call of the vision endpoint come out in the same order.
 */
export function requiredCapabilities<K extends OperationName>(
  operation: K,
  payload: Calls[K],
): readonly Capability[] {
  const own = CAPABILITY_OF[operation]
  if (operation !== 'chat' && operation !== 'vision') return [own]
  const { messages, tools, modalities } = payload as ChatCall
  const holds = (kind: ChatPart['type']) =>
    messages.some(({ parts }) => parts.some(({ type }) => type === kind))
  const needed: Capability[] = own === 'vision' ? [] : [own]
  if (tools.length > 0) needed.push('function_calling')
  if (own === 'vision' || holds('image')) needed.push('vision')
  if (holds('audio')) needed.push('audio_input')
  if (modalities.includes('audio')) needed.push('audio_output')
  return needed
}

/**
 * The route that serves without a purpose: the app's own, or what overrides it for a capability of the call. Of several
 * overrides the most specific one counts, the last in the order of `requiredCapabilities`: an app that routes `vision`
 * elsewhere means chats with pictures as well, though it may route `text` too. What only the content asks for counts
 * where that route can serve the whole call: a route for speech is no place for a chat that wants to be answered aloud.
 */
export function assignedRoute(
  { route, capabilityRoutes }: Principal,
  operation: OperationName,
  capabilities: readonly Capability[],
): Route {
  if (capabilityRoutes.size === 0) return route
  const own = CAPABILITY_OF[operation]
  for (const capability of capabilities.toReversed()) {
    const override = capabilityRoutes.get(capability)
    if (override !== undefined && (capability === own || hasAll(override, capabilities))) return override
  }
  return route
}

function hasAll(route: Route, capabilities: readonly Capability[]): boolean {
  if (!route.published) return false
  return candidatesOf(route).some(({ facts }) =>
    capabilities.every((capability) => facts.capabilities.includes(capability)),
  )
}

/** What a route can do: any of its candidates, none while it is not published. */
export function capabilitiesOf(route: Route): ReadonlySet<Capability> {
  return new Set(route.published ? candidatesOf(route).flatMap(({ facts }) => facts.capabilities) : [])
}

/** When a route has pinned entries, there are no others. */
export function candidatesOf({ entries }: Route): readonly Entry[] {
  return entries.some(({ pinned }) => pinned) ? entries.filter(({ pinned }) => pinned) : entries
}
