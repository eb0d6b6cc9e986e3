# Another case beside the one that was blessed, golden trace included.
cp -r cases/square cases/wide
