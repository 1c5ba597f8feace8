"""busbw"""
