-- Some of the API keys, and the moments at which some of those were revoked.
--
-- KEYS all revoked
-- ARGV cursor count
-- Reply {cursor, keys, moments}: where the others begin, ids and values in turn, and a moment or false for each

local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local moments = {}
for at = 1, #page[2], 2 do moments[#moments + 1] = redis.call('HGET', KEYS[2], page[2][at]) end
return { page[1], page[2], moments }
