-- Begins, changes or ends an incident, and writes the event that tells of it.
--
-- KEYS partition never
-- ARGV name expected record event_id workspace occurred body
-- Reply 1 | 0: whether this call changed it
--
-- `incidents` is a hash: name -> the id of the incident, a space and its JSON. `expected` is the open record or its id,
-- empty if none is open. `record` takes its place, and ends it if empty. An empty `event_id` writes no event.

local name, expected, record = ARGV[1], ARGV[2], ARGV[3]
local incidents = key('incidents')

local held = redis.call('HGET', incidents, name)
local id = held and string.match(held, '^%S+') or ''
if id ~= expected and held ~= expected then return 0 end

if ARGV[4] ~= '' then
  redis.call('HSET', key('event', ARGV[4]), 'body', ARGV[7])
  announce({ id = ARGV[4], event = ARGV[4], workspace = ARGV[5], status = 'alert', ended = ARGV[6] })
end
if record == '' then redis.call('HDEL', incidents, name) else redis.call('HSET', incidents, name, record) end
return 1
