/** A JSON object of somebody else: nothing about its members is known until looked at. */
export type JsonObject = Readonly<Record<string, unknown>>
