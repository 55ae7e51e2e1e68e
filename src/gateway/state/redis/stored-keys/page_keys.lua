-- Some of the API keys, and the moments at which some of those were revoked.
--
-- KEYS all revoked
-- ARGV cursor count
-- Reply {cursor, keys, moments, total}: where the others begin, ids and values in turn, a moment or false for each, and
-- how many there are
--
-- A cursor is of one server: after a failover it leads to another place.

local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local moments = {}
for at = 1, #page[2], 2 do moments[#moments + 1] = redis.call('HGET', KEYS[2], page[2][at]) end
return { page[1], page[2], moments, redis.call('HLEN', KEYS[1]) }
