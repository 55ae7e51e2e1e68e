-- Puts a document of facts about models in place of the one that there is, once per token. What is published counts as
-- changed, so that every node reads it.
--
-- KEYS catalog never
-- ARGV token models workspace json token_ms
-- Reply 1 | 0: whether this call put it
--
-- Empty `models` take the document away.

if not redis.call('SET', key('note', ARGV[1]), '', 'NX', 'PX', ARGV[5]) then return 0 end
if ARGV[2] == '' then redis.call('DEL', key('models')) else redis.call('SET', key('models'), ARGV[2]) end
local count = digits((redis.call('HGET', catalog, 'count') or 0) + 1)
redis.call('HSET', catalog, 'count', count, 'changed_at', time[1] .. '.' .. time[2])
redis.pcall('PUBLISH', 'lk:jobs', 'settings')
add_line(ARGV[3], ARGV[4])
return 1
